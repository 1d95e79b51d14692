"""A table of estimates: as cells, as Markdown, as flat records."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from ..statistics import Estimate

FEW = 20
"""An interval from fewer images is marked."""

NOTHING = Estimate(None, None, None, 0)

Cell = str | int | Estimate | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report.

    Attributes:
        name: A short name, for files.
        title: What it shows.
        columns: The headers.
        rows: Texts, counts and estimates; None for what was not measured.
        scale: Factor of estimates: 100 for percent.
        places: Decimals of estimates.
        notes: Sentences below it: what its figures leave out, and how to read them.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    scale: float = 100.0
    places: int = 1
    notes: Sequence[str] = ()

    @property
    def has_estimates(self) -> bool:
        """Whether anything was measured."""
        cells = (cell for row in self.rows for cell in row)
        return any(isinstance(cell, Estimate) and cell.value is not None for cell in cells)

    def cells(self) -> list[list[str]]:
        """Return the rows as texts."""
        return [[shown(cell, self.scale, self.places) for cell in row] for row in self.rows]

    def filled(self) -> "Table":
        """Return the table without columns that are empty in every row."""
        kept = [number for number in range(len(self.columns)) if any(r[number] for r in self.rows)]
        columns = [self.columns[number] for number in kept]
        return replace(self, columns=columns, rows=[[row[at] for at in kept] for row in self.rows])

    def csv(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.cells()])
        return text.getvalue()

    def markdown(self) -> str:
        """Return the table in Markdown, with its title above and its notes below."""
        head = [f"**{markdown_text(self.title)}**", "", _line(self.columns)]
        rows = ["|---" * len(self.columns) + "|", *map(_line, self.cells())]
        return "\n".join([*head, *rows, *(f"\n{note}" for note in self.notes)]) + "\n"

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record per number.

        Returns:
            Records with table, the texts of the row by column, name (the column), value, low,
            high, questions, pictures (the number of images).
        """
        found = []
        for row in self.rows:
            named = dict(zip(self.columns, row, strict=True))
            labels = {column: cell for column, cell in named.items() if isinstance(cell, str)}
            for column, cell in named.items():
                one = Estimate(cell, None, None, cell) if isinstance(cell, int) else cell
                if isinstance(one, Estimate) and one.value is not None:
                    figures = {"value": one.value, "low": one.low, "high": one.high}
                    about = {"questions": one.questions, "pictures": one.clusters}
                    found.append({"table": self.name, **labels, "name": column} | figures | about)
        return found


def shown(cell: Cell, scale: float = 100.0, places: int = 1) -> str:
    """Return a cell as text: an estimate with its interval, "-" for nothing.

    An interval from few images says from how many: how alike their questions are is hardly known.
    """
    if not isinstance(cell, Estimate):
        return "-" if cell is None else str(cell)
    if cell.value is None:
        return "-"
    value = f"{scale * cell.value:.{places}f}"
    interval = ""
    if cell.low is not None and cell.high is not None:
        interval = f"{scale * cell.low:.{places}f} to {scale * cell.high:.{places}f}"
    told = ", ".join(filter(None, (interval, images_if_few(cell))))
    return f"{value} ({told})" if told else value


def images_if_few(estimate: Estimate) -> str:
    """Return "3 images" where an estimate is about few; else an empty text."""
    count = estimate.clusters
    if count is None or count >= FEW:
        return ""
    return f"{count} image{'s' if count > 1 else ''}"


def percent(part: Estimate) -> Estimate:
    """Return a share as percent, for tables whose other estimates are none."""
    low, value, high = (
        None if one is None else 100 * one for one in (part.low, part.value, part.high)
    )
    return replace(part, value=value, low=low, high=high)


def markdown_text(text: str) -> str:
    """Return a text as one line of Markdown that shows it, in a table's cell too.

    The HTML, links and images of a name would be followed by whoever opens the report.
    """
    shown = escape(text, quote=False).replace("|", "\\|").replace("[", "\\[")
    return " ".join(shown.splitlines())


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"
