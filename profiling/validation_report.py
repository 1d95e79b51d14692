"""The demo pair timed and predicted, as tables and as figures for programs."""

from collections.abc import Sequence

from ..records.record import Record
from .simulation import Simulation, TimedTotal
from .tables import Table


def validation_tables(simulation: Simulation) -> list[Table]:
    """Totals by both clocks, and what the predictions are made of; none if nothing was timed."""
    if not simulation.timed:
        return []
    busy = "The same in the processor's time, which a busy machine changes little"
    return [
        _timed_table(
            "validation", "The demo pair on this machine, timed and predicted", simulation.timed
        ),
        _timed_table("validation_processor", busy, simulation.timed_by_processor),
        _components_table(simulation),
    ]


def validation_records(simulation: Simulation) -> list[Record]:
    """The same as flat figures."""
    found: list[Record] = []
    clocks = (("", simulation.timed), (".processor", simulation.timed_by_processor))
    for clock, total in [(clock, total) for clock, totals in clocks for total in totals]:
        for key, value, unit in (
            ("measured", total.measured, "s"),
            ("predicted", total.predicted, "s"),
            ("error", total.error, "share"),
        ):
            low, high = total.error_bounds if key == "error" else (None, None)
            found.append(
                Record(
                    f"demo.{total.strategy}{clock}.{key}",
                    round(value, 4),
                    unit,
                    low=None if low is None else round(low, 4),
                    high=None if high is None else round(high, 4),
                    questions=total.questions,
                )
            )
    for part in simulation.components:
        low, high = (round(end, 6) for end in part.bounds)
        name = f"demo.component.{part.name}"
        found.append(Record(name, round(part.value, 6), part.unit, low, high))
    return found


def _timed_table(name: str, title: str, totals: Sequence[TimedTotal]) -> Table:
    header = ["strategy", "questions", "measured (s)", "predicted (s)", "predicted / measured"]
    header += ["95% interval"]
    rows = [
        [
            row.strategy,
            str(row.questions),
            f"{row.measured:.2f}",
            f"{row.predicted:.2f}",
            f"{1 + row.error:.3f}",
            "{:.3f} to {:.3f}".format(*(1 + end for end in row.error_bounds)),
        ]
        for row in totals
    ]
    return Table(name, title, header, rows)


def _components_table(simulation: Simulation) -> Table:
    header = ["component", "value", "95% interval"]
    rows = []
    for part in simulation.components:
        seconds = part.unit == "s"
        values = [1000 * value if seconds else value for value in (part.value, *part.bounds)]
        shown = [f"{value:.3f}" for value in values]
        unit = "ms" if seconds else part.unit
        rows.append([part.name, f"{shown[0]} {unit}", f"{shown[1]} to {shown[2]}"])
    title = "What the predictions of the wall clock are made of"
    return Table("validation_components", title, header, rows)
