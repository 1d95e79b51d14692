"""What component latencies and routes predict, as figures, tables, plots and files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
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
from .latency import ROLES, Latencies
from .paper import (
    DECODED,
    batched_question_seconds,
    compare_decoding,
    compare_totals,
    contradictions,
)
from .serving import UTILIZATION, Serving, engine_seconds, is_overloaded, simulate_serving
from .totals import Advice, Settings, advise, output_tokens, predictable, total_seconds
from .workload import Workload

FAST = Settings(overlap=True, prefix_reuse=True, floor=False)
"""Both direct answers concurrently, no prefix encoded twice, no lower bound of a call."""

_PLANNED = frozenset({"mai", "large_reason"})
"""Strategies that engines are planned for."""

_FILES = (
    *("simulate.json", "simulate.md", "totals.csv", "serving.csv", "plan.csv"),
    *("table11.csv", "table12.csv", "economy.png", "seconds.png"),
)
"""Everything that a simulation may leave in a folder, `run.json` aside."""

_RECORDED = {
    "total": (3, "s"),
    "total_fast": (3, "s"),
    "output_tokens": (2, "tokens"),
    "speedup": (4, "ratio"),
    "score": (6, "%"),
    "served": (3, "questions/s"),
    "median_response": (4, "s"),
    "p95_response": (4, "s"),
    "small_busy": (4, "share"),
    "small_batch": (2, "sequences"),
    "large_busy": (4, "share"),
    "large_batch": (2, "sequences"),
}
"""Decimals and unit of a prediction's figures in `simulate.json`."""

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one strategy takes on one workload.

    Attributes:
        workload: The benchmark.
        strategy: The strategy.
        questions: How many the benchmark has.
        figures: `total` (seconds of all questions, one after the other, the paper's way),
            `total_fast` (the same with `FAST`), `output_tokens` (mean of all calls of a question),
            and where known `speedup` (over full transfer) and `score` (percent); under load
            `served` (questions per second), `median_response` and `p95_response` (seconds), and of
            each role `small_busy` (share of the time) and `small_batch` (mean sequences).
        overloaded: Whether questions arrive faster than full batches answer them, so that a queue
            grows; None without a rate of arrivals.
        engines: Of each role, for the stream that was to be planned; empty without.
    """

    workload: str
    strategy: str
    questions: int
    figures: Figures
    overloaded: bool | None
    engines: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Simulation:
    """A whole simulation.

    Attributes:
        inputs: Where the figures come from, a sentence each.
        serving: Arrivals and engines.
        predictions: By workload and strategy.
        advice: For each workload.
        paper: Whether the input was the paper's tables; then Tables 11 and 12 are compared.
    """

    inputs: Sequence[str]
    serving: Serving
    predictions: Sequence[Prediction]
    advice: Sequence[Advice]
    paper: bool


def simulate(
    workloads: Sequence[Workload],
    latencies: Latencies,
    serving: Serving,
    *,
    inputs: Sequence[str] = (),
    floor: float | None = None,
    paper: bool = False,
) -> Simulation:
    """Predict everything that the figures allow.

    Args:
        workloads: Benchmarks with routes and tokens.
        latencies: The pair's component latencies.
        serving: Arrivals and engines.
        inputs: Where the figures come from.
        floor: Score that the advice must reach, None for the large model's reasoning.
        paper: Whether these are the paper's figures.
    """
    return Simulation(
        inputs=inputs,
        serving=serving,
        predictions=[
            _predict(strategy, workload, latencies, serving)
            for workload in workloads
            for strategy in predictable(workload)
        ],
        advice=[advise(workload, latencies, floor) for workload in workloads],
        paper=paper,
    )


def _predict(
    strategy: str, workload: Workload, latencies: Latencies, serving: Serving
) -> Prediction:
    total = total_seconds(strategy, workload, latencies)
    served = simulate_serving(strategy, workload, latencies, serving)
    figures = {
        "total": total,
        "total_fast": total_seconds(strategy, workload, latencies, FAST),
        "output_tokens": output_tokens(strategy, workload),
        # Its calls are some of the cascade's, so that their tokens are known.
        "speedup": total_seconds("full_transfer", workload, latencies) / total,
        "served": served.rate,
        "median_response": served.quantile(0.5),
        "p95_response": served.quantile(0.95),
    }
    if (score := workload.score(strategy)) is not None:
        figures["score"] = score
    for role in ROLES:
        figures |= {f"{role}_busy": served.busy[role], f"{role}_batch": served.batch[role]}
    needs = engine_seconds(strategy, workload, latencies, serving)
    planned = serving.plan if strategy in _PLANNED else None
    return Prediction(
        workload.benchmark,
        strategy,
        workload.questions,
        figures,
        is_overloaded(needs, serving) if serving.rate else None,
        {role: ceil(planned * need / UTILIZATION) for role, need in needs.items()}
        if planned
        else {},
    )


def write_simulation(simulation: Simulation, folder: Path) -> None:
    """Write `simulate.json`, `simulate.md`, each table as CSV, and the plots.

    Args:
        simulation: What was predicted.
        folder: Where to write.

    Raises:
        ConfigError: A file cannot be written, or matplotlib is not installed.
    """
    for name in _FILES:  # of an earlier run, which may have had others
        (folder / name).unlink(missing_ok=True)
    write_records(folder / "simulate.json", records(simulation))
    shown = tables(simulation)
    parts = [
        "# Simulation",
        _list("What it computes with", simulation.inputs),
        *(table.markdown() for table in shown),
        _list("Advice", [str(one) for one in simulation.advice]),
    ]
    if simulation.paper:
        parts.append(_list("Figures of the paper that contradict each other", contradictions()))
    write_whole(folder / "simulate.md", "\n\n".join(parts) + "\n")
    for table in shown:
        write_whole(folder / f"{table.name}.csv", table.csv())
    for name, drawn in _plots(simulation.predictions).items():
        write_whole(folder / f"{name}.png", drawn)


def _list(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines)


def tables(simulation: Simulation) -> list[Table]:
    """Return everything as tables."""
    serving = simulation.serving
    published = batched_question_seconds() if simulation.paper else {}
    how = f"{serving.rate:g} a second" if serving.rate else f"{serving.concurrency} at a time"

    def beside(row: Prediction) -> str:
        known = published.get(row.strategy) if row.workload == DECODED else None
        return f"{1 / known:.2f}" if known else ""

    totals: _Columns = {
        "questions": lambda row: str(row.questions),
        "total (s)": lambda row: _seconds_text(row.figures["total"]),
        "s a question": lambda row: f"{row.figures['total'] / row.questions:.4f}",
        "output tokens": _figure("output_tokens", ".1f"),
        "score (%)": _figure("score", ".1f"),
        "faster than full transfer": _figure("speedup", ".2f"),
        "with overlap and prefix reuse (s)": lambda row: _seconds_text(row.figures["total_fast"]),
    }
    served: _Columns = {
        "questions/s": _figure("served", ".2f"),
        "median response (s)": _figure("median_response", ".3g"),
        "p95 response (s)": _figure("p95_response", ".3g"),
        "keeps up": _keeps_up,
        "small busy (%)": lambda row: f"{100 * row.figures['small_busy']:.0f}",
        "large busy (%)": lambda row: f"{100 * row.figures['large_busy']:.0f}",
        "small batch": _figure("small_batch", ".1f"),
        "large batch": _figure("large_batch", ".1f"),
        "Table 12 (questions/s)": beside,
    }
    plan: _Columns = {
        "questions/s": lambda _: f"{serving.plan:g}",
        "small engines": lambda row: str(row.engines["small"]),
        "large engines": lambda row: str(row.engines["large"]),
    }
    title = (
        f"{serving.questions} questions, {how}, batches up to {serving.batch}; responses are from "
        "arrival to answer"
    )
    rows = simulation.predictions
    found = [
        _table("totals", "One question after the other", totals, rows),
        _table("serving", title, served, rows),
    ]
    if planned := [row for row in rows if row.engines]:
        title = f"Engines for a stream of questions, full batches, {UTILIZATION:.0%} busy"
        found.append(_table("plan", title, plan, planned))
    return [_table11(), _table12(), *found] if simulation.paper else found


_Columns = Mapping[str, Callable[[Prediction], str]]
"""Cells by the headers of their columns."""


def _table(name: str, title: str, columns: _Columns, rows: Sequence[Prediction]) -> Table:
    header = ["benchmark", "strategy", *columns]
    cells = [
        [row.workload, row.strategy, *(cell(row) for cell in columns.values())] for row in rows
    ]
    return Table(name, title, header, cells).filled()


def _figure(name: str, form: str) -> Callable[[Prediction], str]:
    return lambda row: format(row.figures[name], form) if name in row.figures else ""


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 100 else f"{seconds:.3f}"


def _keeps_up(row: Prediction) -> str:
    return "" if row.overloaded is None else "no" if row.overloaded else "yes"


def _table11() -> Table:
    header = ["benchmark", "full transfer (s)", "published (s)", "off"]
    header += ["MAI (s)", "MAI published (s)", "MAI off", "speedup", "speedup published"]
    header += ["speedup off", "R disputed / mean", "R all / mean", "MAI (s), R as of all"]
    header += ["speedup, overlapped"]
    rows = [
        [
            benchmark,
            *_beside(row, "full_transfer", 0),
            *_beside(row, "mai", 0),
            *_beside(row, "speedup", 2),
            f"{row['reasoning_ratio.disputed']:.2f}",
            f"{row['reasoning_ratio.all']:.2f}",
            f"{row['mai.at_ratio_of_all']:.0f}",
            f"{row['speedup.overlapped']:.1f}",
        ]
        for benchmark, row in compare_totals().items()
    ]
    return Table("table11", "Table 11 from Tables 3, 4, 5 and 10", header, rows)


def _table12() -> Table:
    header = ["method", "total (s)", "published (s)", "off"]
    header += ["speedup", "speedup published", "speedup off"]
    rows = [
        [strategy, *_beside(row, "total", 0), *_beside(row, "speedup", 2)]
        for strategy, row in compare_decoding().items()
    ]
    title = "Table 12 (one by one) from Tables 3, 4, 5 and its accept rate"
    return Table("table12", title, header, rows)


def _beside(row: Figures, name: str, places: int) -> list[str]:
    """Return a prediction, the published figure, and how far the first is off."""
    predicted, published = row[f"{name}.predicted"], row[f"{name}.published"]
    return [
        *(f"{value:.{places}f}" for value in (predicted, published)),
        f"{predicted / published - 1:+.1%}",
    ]


def records(simulation: Simulation) -> list[Record]:
    """Return everything as flat figures."""
    found = [Record(f"input.{index}", line, "text") for index, line in enumerate(simulation.inputs)]
    for row in simulation.predictions:
        name = f"{row.workload}.{row.strategy}"
        for key, (places, unit) in _RECORDED.items():
            if key in row.figures:
                counted = row.questions if unit == "s" and key.startswith("total") else None
                value = round(row.figures[key], places)
                found.append(Record(f"{name}.{key}", value, unit, questions=counted))
        if row.overloaded is not None:
            found.append(Record(f"{name}.keeps_up", _keeps_up(row), "text"))
        found += [
            Record(f"{name}.{role}_engines", count, "engines")
            for role, count in row.engines.items()
        ]
    found += advice_records(simulation.advice)
    return found + (_paper_records() if simulation.paper else [])


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
    compared = {f"table11.{benchmark}": row for benchmark, row in compare_totals().items()}
    compared |= {f"table12.{strategy}": row for strategy, row in compare_decoding().items()}
    ratios = ("speedup", "reasoning_ratio")
    found = [
        Record(f"{name}.{key}", round(value, 4), "ratio" if key.startswith(ratios) else "s")
        for name, row in compared.items()
        for key, value in row.items()
    ]
    lines = enumerate(contradictions())
    return found + [Record(f"contradiction.{index}", line, "text") for index, line in lines]


def _plots(predictions: Sequence[Prediction]) -> dict[str, bytes]:
    """Return PNG files by name: `seconds`, and `economy` where scores are known.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    found = {"seconds": _seconds_plot(_by_workload(predictions))}
    scored = _by_workload([row for row in predictions if "score" in row.figures])
    return found | ({"economy": _economy_plot(scored)} if scored else {})


def _by_workload(predictions: Sequence[Prediction]) -> dict[str, list[Prediction]]:
    names = dict.fromkeys(row.workload for row in predictions)
    return {name: [row for row in predictions if row.workload == name] for name in names}


def _seconds_plot(predictions: dict[str, list[Prediction]]) -> bytes:
    """Seconds a question of every strategy, benchmark by benchmark."""
    figure, parts = new_figure(4.2, 3.8, len(predictions))
    for axes, (benchmark, rows) in zip(parts, predictions.items(), strict=True):
        # Names at every part: a set without an accept rate has no speculative decoding.
        each = [row.figures["total"] / row.questions for row in rows]
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
                [row.figures["output_tokens"]],
                [row.figures["score"]],
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
        points = [
            (row.strategy, row.figures["output_tokens"], row.figures["score"]) for row in rows
        ]
        label_points(figure, axes, points)
    return png(figure)
