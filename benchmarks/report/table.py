"""A table of estimates, as Markdown and as plain cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..estimates import Estimate

FEW = 20
"""An interval from fewer images is marked."""

Cell = str | int | Estimate | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report.

    Attributes:
        name: A short name, for files.
        title: What it shows.
        columns: The headers.
        rows: Texts, counts and estimates; None for what was not measured.
        scale: What estimates are multiplied with: 100 for percent.
        places: Decimals of estimates.
        notes: Sentences below it: what its figures leave out, and how to read them.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    scale: float = 100.0
    places: int = 1
    notes: tuple[str, ...] = ()

    def cells(self) -> list[list[str]]:
        """The rows as texts."""
        return [[shown(cell, self.scale, self.places) for cell in row] for row in self.rows]

    def markdown(self) -> str:
        """The table in Markdown, with its title above and its notes below."""
        lines = [f"**{self.title}**", "", _line(self.columns), "|---" * len(self.columns) + "|"]
        notes = [line for note in self.notes for line in ("", note)]
        return "\n".join([*lines, *map(_line, self.cells()), *notes]) + "\n"


def shown(cell: Cell, scale: float = 100.0, places: int = 1) -> str:
    """A cell as text: an estimate with its interval, "-" for nothing.

    An interval from few images says from how many: how alike their questions are is hardly known.
    """
    if cell is None:
        return "-"
    if not isinstance(cell, Estimate):
        return str(cell)
    if cell.value is None:
        return "-"
    value = f"{scale * cell.value:.{places}f}"
    told = []
    if cell.low is not None and cell.high is not None:
        told.append(f"{scale * cell.low:.{places}f} to {scale * cell.high:.{places}f}")
    if cell.clusters is not None and cell.clusters < FEW:
        told.append(f"{cell.clusters} picture{'s' if cell.clusters > 1 else ''}")
    return f"{value} ({', '.join(told)})" if told else value


def percent(part: Estimate) -> Estimate:
    """A share as percent, for tables whose other estimates are none."""
    low, value, high = (
        None if one is None else 100 * one for one in (part.low, part.value, part.high)
    )
    return replace(part, value=value, low=low, high=high)


def _line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
