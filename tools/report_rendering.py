"""What `mai report` prints for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from ..benchmarks.report.table import Table


_FILE_WIDTH = 160


def show_report(tables: "Sequence[Table]", verdicts: Mapping[str, str]) -> None:
    """Print every table, and at last whether the cascade pays.

    Args:
        tables: The tables.
        verdicts: What to say of each folder.
    """
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width that things must fit into
        console = Console(highlight=False, width=_FILE_WIDTH)
    for table in tables:
        grid = Grid(
            box=None,
            padding=(0, 2, 0, 0),
            header_style="dim",
            title=Text(table.title, "bold"),
            title_justify="left",
        )
        for column in table.columns:
            grid.add_column(column, overflow="fold")
        for row in table.cells():
            # Intervals below their values: tables have many columns.
            grid.add_row(*(Text(cell.replace(" (", "\n(")) for cell in row))
        console.print(grid)
        for note in table.notes:
            console.print(Text(note, "dim"))
        console.print()
    for folder, sentence in verdicts.items():
        console.print(Text.assemble((f"{folder}  ", "dim"), sentence))
