"""A simulation as tables, figures for programs, and files."""

import csv
from collections.abc import Sequence
from pathlib import Path

from ..records.record import Record, write_records
from .advice import Advice
from .latency import ROLES
from .paper_comparison import (
    Compared,
    batched_question_seconds,
    compare_with_paper,
    contradictions,
)
from .paper_decoding import compare_decoding_with_paper
from .serving import Served
from .simulation import ServedTotals, Simulation
from .simulation_plots import simulation_plots
from .tables import Table, markdown_table
from .validation_report import validation_records, validation_tables


def write_simulation(simulation: Simulation, folder: Path, *, paper: bool) -> None:
    """Write `simulate.json`, `simulate.md`, `totals.csv`, `serving.csv` and the plots.

    Args:
        simulation: What was found.
        folder: Where to write, made if needed.
        paper: Whether it was fed with the paper's tables; then Table 11 is compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_records(folder / "simulate.json", records(simulation, paper=paper))
    (folder / "simulate.md").write_text(markdown(simulation, paper=paper), encoding="utf-8")
    for name, (_, header, rows) in {
        "totals": _totals_table(simulation),
        "serving": _serving_table(simulation, paper=paper),
    }.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
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
    return [*_paper_tables(), *found] if paper else found


def markdown(simulation: Simulation, *, paper: bool) -> str:
    """Everything as Markdown."""
    parts = [markdown_table(found) for found in tables(simulation, paper=paper)]
    parts.append("## Advice\n\n" + "\n".join(f"- {one}" for one in simulation.advice))
    if paper:
        said = "\n".join(f"- {line}" for line in contradictions())
        parts.append(f"## Figures of the paper that contradict each other\n\n{said}")
    return "# Simulation\n\n" + "\n\n".join(parts) + "\n"


def records(simulation: Simulation, *, paper: bool) -> list[Record]:
    """Everything as flat figures."""
    found: list[Record] = []
    for row in simulation.totals:
        name = f"{row.workload}.{row.strategy}"
        for key, seconds in (("total", row.seconds), ("total_fast", row.fast_seconds)):
            found.append(Record(f"{name}.{key}", round(seconds, 3), "s", questions=row.questions))
    for served in simulation.served:
        name, outcome = f"{served.workload}.{served.strategy}", served.served
        found += [
            Record(f"{name}.served", round(outcome.rate, 3), "questions/s"),
            Record(f"{name}.median_wait", round(outcome.quantile(0.5), 3), "s"),
            Record(f"{name}.p95_wait", round(outcome.quantile(0.95), 3), "s"),
        ]
    for (workload, strategy), plan in simulation.plans.items():
        found += [
            Record(f"{workload}.{strategy}.{role}_engines", count, "engines")
            for role, count in plan.engines.items()
        ]
    found += validation_records(simulation)
    for workload, even in simulation.break_even.items():
        for key, point, unit in (
            ("disputed", even.disputed, "share"),
            ("reasoning", even.reasoning, "tokens"),
            ("speed_ratio", even.speed_ratio, "ratio"),
            ("accept_rate", even.accept_rate, "share"),
        ):
            found.append(Record(f"{workload}.break_even.{key}", point, unit))
    found += advice_records(simulation.advice)
    return found + (_paper_records() if paper else [])


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


def _paper_records() -> list[Record]:
    found: list[Record] = []
    for row in compare_with_paper():
        for key, value, unit in (
            ("full_transfer.predicted", row.full_transfer, "s"),
            ("full_transfer.published", row.paper_full_transfer, "s"),
            ("mai.predicted", row.mai, "s"),
            ("mai.published", row.paper_mai, "s"),
            ("speedup.predicted", row.speedup, "ratio"),
            ("speedup.published", row.paper_speedup, "ratio"),
            ("reasoning_ratio.disputed", row.implied_ratio, "ratio"),
            ("reasoning_ratio.all", row.implied_full_ratio, "ratio"),
        ):
            found.append(Record(f"table11.{row.benchmark}.{key}", round(value, 4), unit))
    for method in compare_decoding_with_paper():
        for key, value, unit in (
            ("total.predicted", method.seconds, "s"),
            ("total.published", method.paper_seconds, "s"),
            ("speedup.predicted", method.speedup, "ratio"),
            ("speedup.published", method.paper_speedup, "ratio"),
        ):
            found.append(Record(f"table12.{method.strategy}.{key}", round(value, 4), unit))
    found += [
        Record(f"contradiction.{index}", line, "text")
        for index, line in enumerate(contradictions())
    ]
    return found


def _paper_tables() -> list[Table]:
    header = ["benchmark", "full transfer (s)", "paper", "MAI (s)", "paper", "speedup", "paper"]
    header += ["R on disputed / mean", "R on all / mean", "MAI at the latter (s)", "overlapped"]
    rows = [_compared(row) for row in compare_with_paper()]
    decoding = ["method", "total (s)", "paper", "speedup", "paper"]
    methods = [
        [
            method.strategy,
            _against(method.seconds, method.paper_seconds),
            f"{method.paper_seconds:,.0f}",
            f"{method.speedup:.2f} ({method.speedup / method.paper_speedup - 1:+.1%})",
            f"{method.paper_speedup:.2f}",
        ]
        for method in compare_decoding_with_paper()
    ]
    return [
        ("Table 11 from Tables 3, 4, 5 and 10", header, rows),
        (
            "Table 12 (one by one) from Tables 3, 4, 5 and its accept rate",
            decoding,
            methods,
        ),
    ]


def _compared(row: Compared) -> list[str]:
    return [
        row.benchmark,
        _against(row.full_transfer, row.paper_full_transfer),
        f"{row.paper_full_transfer:,.0f}",
        _against(row.mai, row.paper_mai),
        f"{row.paper_mai:,.0f}",
        f"{row.speedup:.2f} ({row.speedup / row.paper_speedup - 1:+.1%})",
        f"{row.paper_speedup:.2f}",
        f"{row.implied_ratio:.2f}",
        f"{row.implied_full_ratio:.2f}",
        f"{row.mai_at_ratio:,.0f}",
        f"{row.overlapped_speedup:.1f}",
    ]


def _against(value: float, published: float) -> str:
    return f"{value:,.0f} ({value / published - 1:+.1%})"


def _totals_table(simulation: Simulation) -> Table:
    header = ["benchmark", "strategy", "questions", "total (s)", "s a question"]
    header += ["output tokens", "score"]
    header += ["faster than full transfer", "overlap and prefix reuse (s)"]
    rows = []
    for row in simulation.totals:
        full = simulation.seconds(row.workload, "full_transfer")
        rows.append(
            [
                row.workload,
                row.strategy,
                str(row.questions),
                f"{row.seconds:.1f}",
                f"{row.seconds / row.questions:.3f}",
                f"{row.output_tokens:.1f}",
                "" if row.score is None else f"{row.score:g}",
                f"{full / row.seconds:.2f}" if full else "",
                f"{row.fast_seconds:.1f}",
            ]
        )
    return "One question after the other", header, rows


def _serving_table(simulation: Simulation, *, paper: bool) -> Table:
    serving = simulation.serving
    published = batched_question_seconds() if paper else {}
    how = f"{serving.rate:g} a second" if serving.rate else f"{serving.concurrency} at a time"
    title = f"{serving.questions} questions, {how}, batches up to {serving.batch_limit}"
    header = ["benchmark", "strategy", "questions/s", "median wait (s)", "p95 wait (s)"]
    header += ["small busy", "large busy", "small batch", "large batch", "Table 12 (questions/s)"]
    rows = [
        [row.workload, row.strategy, *_served(row.served), _table12(published, row)]
        for row in simulation.served
    ]
    return title, header, rows


def _table12(published: dict[str, float], row: ServedTotals) -> str:
    seconds = published.get(row.strategy) if row.workload == "ChartQA" else None
    return f"{1 / seconds:.2f}" if seconds else ""


def _served(served: Served) -> list[str]:
    return [
        f"{served.rate:.2f}",
        f"{served.quantile(0.5):.2f}",
        f"{served.quantile(0.95):.2f}",
        *(f"{served.busy[role]:.0%}" for role in ROLES),
        *(f"{served.batch[role]:.1f}" for role in ROLES),
    ]


def _plan_table(simulation: Simulation) -> Table:
    header = ["benchmark", "strategy", "rate", "small engines", "large engines"]
    header += ["simulated rate", "median wait (s)", "p95 wait (s)"]
    rows = [
        [
            workload,
            strategy,
            f"{plan.rate:g}",
            str(plan.engines["small"]),
            str(plan.engines["large"]),
            f"{plan.simulated_rate:.1f}",
            f"{plan.served.quantile(0.5):.2f}",
            f"{plan.served.quantile(0.95):.2f}",
        ]
        for (workload, strategy), plan in simulation.plans.items()
    ]
    return "Engines for a stream of questions", header, rows


def _break_even_table(simulation: Simulation) -> Table:
    header = ["benchmark", "against", "disputed", "break-even", "R tokens", "break-even"]
    header += ["small / large tokens/s", "break-even", "accept rate", "of use from"]
    rows = [
        [
            name,
            even.against,
            f"{even.disputed_now:.1%}",
            "-" if even.disputed is None else f"{even.disputed:.1%}",
            f"{even.reasoning_now:.0f}",
            "-" if even.reasoning is None else f"{even.reasoning:,.0f}",
            f"{even.speed_ratio_now:.2f}",
            "-" if even.speed_ratio is None else f"{even.speed_ratio:.2f}",
            "" if even.accept_rate_now is None else f"{even.accept_rate_now:.1%}",
            "-" if even.accept_rate is None else f"{even.accept_rate:.1%}",
        ]
        for name, even in simulation.break_even.items()
    ]
    title = "Where MAI takes as long as the large model's reasoning, and drafts begin to save time"
    return f"{title} (-: nowhere)", header, rows
