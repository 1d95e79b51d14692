"""A simulation as tables, figures for programs, and files."""

from collections.abc import Sequence
from math import isinf
from pathlib import Path

from ..records.record import Record, write_records
from .advice import Advice
from .break_even import BreakEven
from .capacity import SIMULATED_ENGINES, UTILIZATION
from .latency import ROLES
from .paper_comparison import batched_question_seconds, contradictions
from .paper_report import paper_records, paper_tables
from .paper_tables import DECODED
from .serving import Served
from .simulation import ServedTotals, Simulation
from .simulation_plots import simulation_plots
from .tables import Table, seconds_text
from .validation_report import validation_records, validation_tables

_FILES = (
    *("simulate.json", "simulate.md", "totals.csv", "serving.csv", "break_even.csv", "plan.csv"),
    *("table11.csv", "table12.csv", "economy.png", "seconds.png"),
    *("validation.csv", "validation_processor.csv", "validation_components.csv"),
)
"""Everything that a simulation may leave in a folder, `run.json` aside."""


def write_simulation(simulation: Simulation, folder: Path, *, paper: bool) -> None:
    """Write `simulate.json`, `simulate.md`, each table as CSV, and the plots.

    Args:
        simulation: What was found.
        folder: Where to write, made if needed.
        paper: Whether it was fed with the paper's tables; then Tables 11 and 12 are compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:  # of an earlier run, which may have had others
        (folder / name).unlink(missing_ok=True)
    write_records(folder / "simulate.json", records(simulation, paper=paper))
    (folder / "simulate.md").write_text(markdown(simulation, paper=paper), encoding="utf-8")
    for table in tables(simulation, paper=paper):
        table.write(folder)
    for name, drawn in simulation_plots(simulation.totals).items():
        (folder / f"{name}.png").write_bytes(drawn)


def tables(simulation: Simulation, *, paper: bool) -> list[Table]:
    """Everything as tables."""
    found = [
        _totals_table(simulation),
        _serving_table(simulation, paper=paper),
        _break_even_table(simulation),
    ]
    if simulation.plans:
        found.append(_plan_table(simulation))
    found += validation_tables(simulation)
    return [*paper_tables(), *found] if paper else found


def markdown(simulation: Simulation, *, paper: bool) -> str:
    """Everything as Markdown."""
    parts = [_list("What it computes with", simulation.inputs)]
    parts += [found.markdown() for found in tables(simulation, paper=paper)]
    parts.append(_list("Advice", [str(one) for one in simulation.advice]))
    if paper:
        parts.append(_list("Figures of the paper that contradict each other", contradictions()))
    return "# Simulation\n\n" + "\n\n".join(parts) + "\n"


def records(simulation: Simulation, *, paper: bool) -> list[Record]:
    """Everything as flat figures."""
    found = [Record(f"input.{index}", line, "text") for index, line in enumerate(simulation.inputs)]
    for row in simulation.totals:
        name = f"{row.workload}.{row.strategy}"
        for key, seconds in (("total", row.seconds), ("total_fast", row.fast_seconds)):
            found.append(Record(f"{name}.{key}", round(seconds, 3), "s", questions=row.questions))
        found.append(Record(f"{name}.output_tokens", round(row.output_tokens, 2), "tokens"))
        full = simulation.seconds(row.workload, "full_transfer")
        if full:
            found.append(Record(f"{name}.speedup", round(full / row.seconds, 4), "ratio"))
        if row.score is not None:
            found.append(Record(f"{name}.score", row.score, "%"))
    for served in simulation.served:
        name = f"{served.workload}.{served.strategy}"
        found += _served_records(name, served.served)
        if simulation.serving.rate:
            found.append(Record(f"{name}.keeps_up", _keeps_up(served), "text"))
    for (workload, strategy), plan in simulation.plans.items():
        name = f"{workload}.{strategy}"
        found += [
            Record(f"{name}.{role}_engines", count, "engines")
            for role, count in plan.engines.items()
        ]
        found += [
            Record(f"{name}.plan.rate", plan.rate, "questions/s"),
            Record(f"{name}.plan.simulated_rate", plan.simulated_rate, "questions/s"),
            *_served_records(f"{name}.plan", plan.served),
        ]
    found += validation_records(simulation)
    for workload, even in simulation.break_even.items():
        found += _break_even_records(workload, even)
    found += advice_records(simulation.advice)
    return found + (paper_records() if paper else [])


def advice_records(advice: Sequence[Advice]) -> list[Record]:
    """What is best on each workload, in words and as figures."""
    found: list[Record] = []
    for one in advice:
        name = f"{one.workload}.advice"
        found.append(Record(name, str(one), "text"))
        if one.best is not None:
            found += [
                Record(
                    f"{name}.strategy",
                    one.best.strategy,
                    "text",
                    note="" if one.reached else "Nothing reaches what is wanted; this is nearest.",
                ),
                Record(f"{name}.wanted", one.wanted, "%"),
                Record(f"{name}.score", one.best.score, "%"),
                Record(f"{name}.seconds", round(one.best.seconds, 4), "s/question"),
            ]
    return found


def _ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return "any" if isinf(ratio) else f"{ratio:.2f}"


def _break_even_records(workload: str, even: BreakEven) -> list[Record]:
    name = f"{workload}.break_even"
    always = even.speed_ratio is not None and isinf(even.speed_ratio)
    return [
        Record(f"{name}.against", even.against, "text"),
        Record(f"{name}.disputed", even.disputed, "share"),
        Record(f"{name}.disputed_now", even.disputed_now, "share"),
        Record(f"{name}.reasoning", even.reasoning, "tokens"),
        Record(f"{name}.reasoning_now", even.reasoning_now, "tokens"),
        Record(
            f"{name}.speed_ratio",
            None if always else even.speed_ratio,
            "ratio",
            note="MAI is slower at any ratio." if always else "",
        ),
        Record(f"{name}.speed_ratio_now", even.speed_ratio_now, "ratio"),
        Record(f"{name}.accept_rate", even.accept_rate, "share"),
        Record(f"{name}.accept_rate_now", even.accept_rate_now, "share"),
    ]


def _list(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines)


def _totals_table(simulation: Simulation) -> Table:
    header = ["benchmark", "strategy", "questions", "total (s)", "s a question"]
    header += ["output tokens", "score (%)"]
    header += ["faster than full transfer", "with overlap and prefix reuse (s)"]
    rows = []
    for row in simulation.totals:
        full = simulation.seconds(row.workload, "full_transfer")
        rows.append(
            [
                row.workload,
                row.strategy,
                str(row.questions),
                seconds_text(row.seconds),
                f"{row.seconds / row.questions:.4f}",
                f"{row.output_tokens:.1f}",
                "" if row.score is None else f"{row.score:.1f}",
                f"{full / row.seconds:.2f}" if full else "",
                seconds_text(row.fast_seconds),
            ]
        )
    return Table("totals", "One question after the other", header, rows).filled()


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
    rows = [
        [
            row.workload,
            row.strategy,
            *_response(row.served),
            _keeps_up(row) if serving.rate else "",
            *(f"{100 * row.served.busy[role]:.0f}" for role in ROLES),
            *(f"{row.served.batch[role]:.1f}" for role in ROLES),
            _table12(published, row),
        ]
        for row in simulation.served
    ]
    return Table("serving", title, header, rows).filled()


def _keeps_up(row: ServedTotals) -> str:
    return "no" if row.overloaded else "yes"


def _table12(published: dict[str, float], row: ServedTotals) -> str:
    seconds = published.get(row.strategy) if row.workload == DECODED else None
    return f"{1 / seconds:.2f}" if seconds else ""


def _response(served: Served) -> list[str]:
    waits = (served.quantile(0.5), served.quantile(0.95))
    return [f"{served.rate:.2f}", *(f"{wait:.3g}" for wait in waits)]


def _served_records(name: str, served: Served) -> list[Record]:
    found = [
        Record(f"{name}.served", round(served.rate, 3), "questions/s"),
        Record(f"{name}.median_response", round(served.quantile(0.5), 4), "s"),
        Record(f"{name}.p95_response", round(served.quantile(0.95), 4), "s"),
    ]
    for role in ROLES:
        found += [
            Record(f"{name}.{role}_busy", round(served.busy[role], 4), "share"),
            Record(f"{name}.{role}_batch", round(served.batch[role], 2), "sequences"),
        ]
    return found


def _plan_table(simulation: Simulation) -> Table:
    header = ["benchmark", "strategy", "questions/s", "small engines", "large engines"]
    header += ["simulated share of them", "median response (s)", "p95 response (s)"]
    rows = [
        [
            workload,
            strategy,
            f"{plan.rate:g}",
            str(plan.engines["small"]),
            str(plan.engines["large"]),
            f"{plan.simulated_rate / plan.rate:.3g}",
            *_response(plan.served)[1:],
        ]
        for (workload, strategy), plan in simulation.plans.items()
    ]
    title = (
        f"Engines for a stream of questions, {UTILIZATION:.0%} busy; simulated with at most "
        f"{SIMULATED_ENGINES} of a kind, at nearly the same share of the rate"
    )
    return Table("plan", title, header, rows)


def _break_even_table(simulation: Simulation) -> Table:
    header = ["benchmark", "MAI against", "disputed", "slower from", "R tokens", "slower from R"]
    header += ["small / large tokens/s", "slower below", "accept rate", "a draft pays from"]
    rows = [
        [
            name,
            even.against,
            f"{even.disputed_now:.1%}",
            "-" if even.disputed is None else f"{even.disputed:.1%}",
            f"{even.reasoning_now:.0f}",
            "-" if even.reasoning is None else f"{even.reasoning:.0f}",
            f"{even.speed_ratio_now:.2f}",
            _ratio_text(even.speed_ratio),
            "" if even.accept_rate_now is None else f"{even.accept_rate_now:.1%}",
            "-" if even.accept_rate is None else f"{even.accept_rate:.1%}",
        ]
        for name, even in simulation.break_even.items()
    ]
    title = (
        "From where on MAI is slower than the large model's own reasoning (-: nowhere; 0: always)"
    )
    return Table("break_even", title, header, rows)
