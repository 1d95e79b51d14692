"""Tables of figures, before they are printed or written."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: A short name, for files.
        title: What it shows.
        header: A name for each column.
        rows: Cells as texts.
    """

    name: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def filled(self) -> "Table":
        """The same without columns that are empty in every row."""
        kept = [index for index in range(len(self.header)) if any(row[index] for row in self.rows)]
        return replace(
            self,
            header=[self.header[index] for index in kept],
            rows=[[row[index] for index in kept] for row in self.rows],
        )

    def markdown(self) -> str:
        """The table as Markdown, its title as a heading."""
        lines = [_line(row) for row in [self.header, ["---"] * len(self.header), *self.rows]]
        return f"## {self.title}\n\n" + "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Write `NAME.csv`."""
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([self.header, *self.rows])


def seconds_text(seconds: float) -> str:
    """Seconds with as many digits as tell something: tenths from 100 on, below it thousandths."""
    return f"{seconds:.1f}" if seconds >= 100 else f"{seconds:.3f}"


def _line(cells: Sequence[str]) -> str:
    # A bar would end the cell, and a line break the row.
    shown = (" ".join(cell.replace("|", "\\|").splitlines()) for cell in cells)
    return "| " + " | ".join(shown) + " |"
