"""A simulation as tables, figures for programs, and files."""

from collections.abc import Sequence
from pathlib import Path

from ..records.record import Record, write_records
from .advice import Advice
from .capacity import UTILIZATION
from .latency import ROLES
from .paper_comparison import batched_question_seconds, contradictions
from .paper_report import paper_records, paper_tables
from .paper_tables import DECODED
from .serving import Served
from .simulation import ServedTotals, Simulation
from .simulation_plots import simulation_plots
from .tables import Table, seconds_text

_FILES = (
    *("simulate.json", "simulate.md", "totals.csv", "serving.csv", "plan.csv"),
    *("table11.csv", "table12.csv", "economy.png", "seconds.png"),
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
    ]
    if simulation.plans:
        found.append(_plan_table(simulation))
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
    for (workload, strategy), engines in simulation.plans.items():
        found += [
            Record(f"{workload}.{strategy}.{role}_engines", count, "engines")
            for role, count in engines.items()
        ]
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
    rows = [
        [workload, strategy, f"{simulation.plan_rate:g}", *(str(engines[role]) for role in ROLES)]
        for (workload, strategy), engines in simulation.plans.items()
    ]
    title = f"Engines for a stream of questions, full batches, {UTILIZATION:.0%} busy"
    return Table("plan", title, header, rows)
