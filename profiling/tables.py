"""Tables of figures, before they are printed or written."""

from collections.abc import Sequence

Table = tuple[str, list[str], list[list[str]]]
"""A title, a header, rows."""


def markdown_table(table: Table) -> str:
    """A table as Markdown, its title as a heading."""
    title, header, rows = table
    lines = [_line(row) for row in [header, ["---"] * len(header), *rows]]
    return f"## {title}\n\n" + "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
