"""What `mai attention` prints for people."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def show_attention(done: dict[str, Any], folder: str) -> None:
    """Print the figures by layer, and where the rest is.

    Args:
        done: What the command found out.
        folder: Where the files are.
    """
    console = Console(highlight=False)
    for markdown in done["tables"]:
        _show_table(console, markdown)
    _show_end(console, done, folder, ", ".join(done["files"]))


def show_suggestion(done: dict[str, Any], folder: str) -> None:
    """Print what each layer is worth, and which one to take.

    Args:
        done: What the command found out.
        folder: Where the files are.
    """
    console = Console(highlight=False)
    _show_table(console, done["table"])
    console.print(Text(done["verdict"], "bold"))
    for sentence in done["sentences"]:
        console.print(Text(sentence))
    if done["pair_file"]:
        console.print(Text("\nFor the pair file:", "dim"))
        console.print(Text(done["pair_file"]))
    _show_end(console, done, folder, "suggest.md, suggest.json")


def _show_end(console: Console, done: dict[str, Any], folder: str, files: str) -> None:
    if done["failures"]:
        count = len(done["failures"])
        sentence = f"{count} failed and are in no figure; the same command tries them again."
        console.print(Text(sentence, "bold red"))
    console.print(Text(f"{done['calls_made']} calls and passes made now.", "dim"))
    if files:
        console.print(Text(f"In {folder}: {files}.", "dim"))


def _show_table(console: Console, markdown: str) -> None:
    """A Markdown table with its title and notes."""
    lines = [line for line in markdown.splitlines() if line]
    rows = [_cells(line) for line in lines if line.startswith("|")]
    title, *notes = [line for line in lines if not line.startswith("|")]
    table = Table(
        box=None, padding=(0, 2, 0, 0), header_style="dim", title=title.strip("*"),
        title_justify="left", title_style="bold",
    )  # fmt: skip
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows[2:]:
        table.add_row(*map(Text, row))
    console.print(table)
    for note in notes:
        console.print(Text(note, "dim"))
    console.print()


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in line.strip("|").split(" | ")]
