"""A simulation as tables, figures for programs, plots and files."""

from collections.abc import Sequence
from pathlib import Path

from ..benchmarks.plotting import (
    add_strategy_legend,
    label_decades,
    label_points,
    new_figure,
    png,
    shortened,
    strategy_color,
    strategy_marker,
)
from ..benchmarks.records import Record, write_records
from ..benchmarks.report.table import Table
from ..configs.files import write_whole
from .latency import ROLES
from .paper import (
    DECODED,
    batched_question_seconds,
    compare_decoding,
    compare_totals,
    contradictions,
)
from .serving import UTILIZATION
from .simulation import Prediction, Simulation
from .totals import Advice

_FILES = (
    *("simulate.json", "simulate.md", "totals.csv", "serving.csv", "plan.csv"),
    *("table11.csv", "table12.csv", "economy.png", "seconds.png"),
)
"""Everything that a simulation may leave in a folder, `run.json` aside."""


def write_simulation(simulation: Simulation, folder: Path, *, paper: bool) -> None:
    """Write `simulate.json`, `simulate.md`, each table as CSV, and the plots.

    Args:
        simulation: What was predicted.
        folder: Where to write, made if needed.
        paper: Whether the paper's tables were the input; then Tables 11 and 12 are compared.
    """
    for name in _FILES:  # of an earlier run, which may have had others
        (folder / name).unlink(missing_ok=True)
    write_records(folder / "simulate.json", records(simulation, paper=paper))
    shown = tables(simulation, paper=paper)
    parts = [
        _list("What it computes with", simulation.inputs),
        *(table.markdown() for table in shown),
        _list("Advice", [str(one) for one in simulation.advice]),
    ]
    if paper:
        parts.append(_list("Figures of the paper that contradict each other", contradictions()))
    text = "# Simulation\n\n" + "\n\n".join(parts) + "\n"
    write_whole(folder / "simulate.md", text)
    for table in shown:
        write_whole(folder / f"{table.name}.csv", table.csv())
    for name, drawn in _plots(simulation.predictions).items():
        write_whole(folder / f"{name}.png", drawn)


def _list(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines)


def tables(simulation: Simulation, *, paper: bool) -> list[Table]:
    """Return everything as tables."""
    found = [_totals_table(simulation.predictions), _serving_table(simulation, paper=paper)]
    if simulation.plans:
        found.append(_plan_table(simulation))
    return [_table11(), _table12(), *found] if paper else found


def _totals_table(predictions: Sequence[Prediction]) -> Table:
    header = ["benchmark", "strategy", "questions", "total (s)", "s a question"]
    header += ["output tokens", "score (%)"]
    header += ["faster than full transfer", "with overlap and prefix reuse (s)"]
    rows = [
        [
            row.workload,
            row.strategy,
            str(row.questions),
            _seconds_text(row.seconds),
            f"{row.seconds / row.questions:.4f}",
            f"{row.output_tokens:.1f}",
            "" if row.score is None else f"{row.score:.1f}",
            "" if row.speedup is None else f"{row.speedup:.2f}",
            _seconds_text(row.fast_seconds),
        ]
        for row in predictions
    ]
    return Table("totals", "One question after the other", header, rows).filled()


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 100 else f"{seconds:.3f}"


def _serving_table(simulation: Simulation, *, paper: bool) -> Table:
    serving = simulation.serving
    published = batched_question_seconds() if paper else {}
    how = f"{serving.rate:g} a second" if serving.rate else f"{serving.concurrency} at a time"
    title = (
        f"{serving.questions} questions, {how}, batches up to {serving.batch_limit}; "
        "responses are from arrival to answer"
    )
    header = ["benchmark", "strategy", "questions/s", "median response (s)", "p95 response (s)"]
    header += ["keeps up", "small busy (%)", "large busy (%)", "small batch", "large batch"]
    header += ["Table 12 (questions/s)"]
    rows = []
    for row in simulation.predictions:
        served = row.served
        known = published.get(row.strategy) if row.workload == DECODED else None
        rows.append(
            [
                row.workload,
                row.strategy,
                f"{served.rate:.2f}",
                *(f"{served.quantile(share):.3g}" for share in (0.5, 0.95)),
                _keeps_up(row) if serving.rate else "",
                *(f"{100 * served.busy[role]:.0f}" for role in ROLES),
                *(f"{served.batch[role]:.1f}" for role in ROLES),
                f"{1 / known:.2f}" if known else "",
            ]
        )
    return Table("serving", title, header, rows).filled()


def _keeps_up(row: Prediction) -> str:
    return "no" if row.overloaded else "yes"


def _plan_table(simulation: Simulation) -> Table:
    header = ["benchmark", "strategy", "questions/s", "small engines", "large engines"]
    rows = [
        [workload, strategy, f"{simulation.plan_rate:g}", *(str(engines[role]) for role in ROLES)]
        for (workload, strategy), engines in simulation.plans.items()
    ]
    title = f"Engines for a stream of questions, full batches, {UTILIZATION:.0%} busy"
    return Table("plan", title, header, rows)


def _table11() -> Table:
    header = ["benchmark", "full transfer (s)", "published (s)", "off"]
    header += ["MAI (s)", "MAI published (s)", "MAI off", "speedup", "speedup published"]
    header += ["speedup off", "R disputed / mean", "R all / mean", "MAI (s), R as of all"]
    header += ["speedup, overlapped"]
    rows = [
        [
            row.benchmark,
            *_beside(row.full_transfer, row.paper_full_transfer),
            *_beside(row.mai, row.paper_mai),
            *_beside(row.speedup, row.paper_speedup, places=2),
            f"{row.implied_ratio:.2f}",
            f"{row.implied_full_ratio:.2f}",
            f"{row.mai_at_ratio:.0f}",
            f"{row.overlapped_speedup:.1f}",
        ]
        for row in compare_totals()
    ]
    return Table("table11", "Table 11 from Tables 3, 4, 5 and 10", header, rows)


def _table12() -> Table:
    header = ["method", "total (s)", "published (s)", "off"]
    header += ["speedup", "speedup published", "speedup off"]
    rows = [
        [
            row.strategy,
            *_beside(row.seconds, row.paper_seconds),
            *_beside(row.speedup, row.paper_speedup, places=2),
        ]
        for row in compare_decoding()
    ]
    title = "Table 12 (one by one) from Tables 3, 4, 5 and its accept rate"
    return Table("table12", title, header, rows)


def _beside(value: float, published: float, places: int = 0) -> list[str]:
    """Return a prediction, the published figure, and how far the first is off."""
    return [f"{value:.{places}f}", f"{published:.{places}f}", f"{value / published - 1:+.1%}"]


def records(simulation: Simulation, *, paper: bool) -> list[Record]:
    """Return everything as flat figures."""
    found = [Record(f"input.{index}", line, "text") for index, line in enumerate(simulation.inputs)]
    for row in simulation.predictions:
        name, served = f"{row.workload}.{row.strategy}", row.served
        for key, seconds in (("total", row.seconds), ("total_fast", row.fast_seconds)):
            found.append(Record(f"{name}.{key}", round(seconds, 3), "s", questions=row.questions))
        found.append(Record(f"{name}.output_tokens", round(row.output_tokens, 2), "tokens"))
        if row.speedup is not None:
            found.append(Record(f"{name}.speedup", round(row.speedup, 4), "ratio"))
        if row.score is not None:
            found.append(Record(f"{name}.score", row.score, "%"))
        found += [
            Record(f"{name}.served", round(served.rate, 3), "questions/s"),
            Record(f"{name}.median_response", round(served.quantile(0.5), 4), "s"),
            Record(f"{name}.p95_response", round(served.quantile(0.95), 4), "s"),
        ]
        for role in ROLES:
            found.append(Record(f"{name}.{role}_busy", round(served.busy[role], 4), "share"))
            found.append(Record(f"{name}.{role}_batch", round(served.batch[role], 2), "sequences"))
        if simulation.serving.rate:
            found.append(Record(f"{name}.keeps_up", _keeps_up(row), "text"))
    found += [
        Record(f"{workload}.{strategy}.{role}_engines", count, "engines")
        for (workload, strategy), engines in simulation.plans.items()
        for role, count in engines.items()
    ]
    found += advice_records(simulation.advice)
    return found + (_paper_records() if paper else [])


def advice_records(advice: Sequence[Advice]) -> list[Record]:
    """Return what is best on each workload, in words and as figures."""
    found: list[Record] = []
    for one in advice:
        name = f"{one.workload}.advice"
        found.append(Record(name, str(one), "text"))
        if one.best is not None:
            note = "" if one.reached else "Nothing reaches what is wanted; this is nearest."
            found += [
                Record(f"{name}.strategy", one.best.strategy, "text", note=note),
                Record(f"{name}.wanted", one.wanted, "%"),
                Record(f"{name}.score", one.best.score, "%"),
                Record(f"{name}.seconds", round(one.best.seconds, 4), "s/question"),
            ]
    return found


def _paper_records() -> list[Record]:
    """Tables 11 and 12, and the figures of the paper that contradict each other."""
    figures: list[tuple[str, float, str]] = []
    for row in compare_totals():
        figures += [
            (f"table11.{row.benchmark}.full_transfer.predicted", row.full_transfer, "s"),
            (f"table11.{row.benchmark}.full_transfer.published", row.paper_full_transfer, "s"),
            (f"table11.{row.benchmark}.mai.predicted", row.mai, "s"),
            (f"table11.{row.benchmark}.mai.published", row.paper_mai, "s"),
            (f"table11.{row.benchmark}.speedup.predicted", row.speedup, "ratio"),
            (f"table11.{row.benchmark}.speedup.published", row.paper_speedup, "ratio"),
            (f"table11.{row.benchmark}.speedup.overlapped", row.overlapped_speedup, "ratio"),
            (f"table11.{row.benchmark}.reasoning_ratio.disputed", row.implied_ratio, "ratio"),
            (f"table11.{row.benchmark}.reasoning_ratio.all", row.implied_full_ratio, "ratio"),
            (f"table11.{row.benchmark}.mai.at_ratio_of_all", row.mai_at_ratio, "s"),
        ]
    for method in compare_decoding():
        figures += [
            (f"table12.{method.strategy}.total.predicted", method.seconds, "s"),
            (f"table12.{method.strategy}.total.published", method.paper_seconds, "s"),
            (f"table12.{method.strategy}.speedup.predicted", method.speedup, "ratio"),
            (f"table12.{method.strategy}.speedup.published", method.paper_speedup, "ratio"),
        ]
    found = [Record(name, round(value, 4), unit) for name, value, unit in figures]
    lines = enumerate(contradictions())
    return found + [Record(f"contradiction.{index}", line, "text") for index, line in lines]


def _plots(predictions: Sequence[Prediction]) -> dict[str, bytes]:
    """Return PNG files by name: `seconds`, and `economy` where scores are known.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    found = {"seconds": _seconds_plot(_by_workload(predictions))}
    scored = _by_workload([row for row in predictions if row.score is not None])
    return found | ({"economy": _economy_plot(scored)} if scored else {})


def _by_workload(predictions: Sequence[Prediction]) -> dict[str, list[Prediction]]:
    names = dict.fromkeys(row.workload for row in predictions)
    return {name: [row for row in predictions if row.workload == name] for name in names}


def _seconds_plot(predictions: dict[str, list[Prediction]]) -> bytes:
    """Seconds a question of every strategy, benchmark by benchmark."""
    figure, parts = new_figure(4.2, 3.8, len(predictions))
    for axes, (benchmark, rows) in zip(parts, predictions.items(), strict=True):
        # Names at every part: a set without an accept rate has no speculative decoding.
        each = [row.seconds / row.questions for row in rows]
        colors = [strategy_color(row.strategy) for row in rows]
        bars = axes.barh([row.strategy for row in rows], each, color=colors)
        axes.bar_label(bars, [f"{seconds:.3g}" for seconds in each], padding=3, fontsize=8)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_title(shortened(benchmark))
        axes.set_xlabel("seconds a question, one after the other")
    return png(figure)


def _economy_plot(predictions: dict[str, list[Prediction]]) -> bytes:
    """Score against mean output tokens, a point a strategy, benchmark by benchmark (Figure 1)."""
    figure, parts = new_figure(4.8, 4.4, len(predictions))
    for axes, (benchmark, rows) in zip(parts, predictions.items(), strict=True):
        axes.set_xscale("log")
        axes.margins(x=0.2, y=0.12)
        for row in rows:
            axes.plot(
                [row.output_tokens],
                [row.score],
                marker=strategy_marker(row.strategy),
                markersize=12 if row.strategy == "mai" else 6,
                linestyle="none",
                color=strategy_color(row.strategy),
            )
        label_decades(axes.xaxis)
        axes.set_title(shortened(benchmark))
        axes.set_xlabel("output tokens a question (log)")
        axes.set_ylabel("score (%)")
        axes.grid(alpha=0.25, which="both")
    add_strategy_legend(figure, [row.strategy for rows in predictions.values() for row in rows])
    for axes, rows in zip(parts, predictions.values(), strict=True):
        points = [(row.strategy, row.output_tokens, row.score or 0.0) for row in rows]
        label_points(figure, axes, points)
    return png(figure)
