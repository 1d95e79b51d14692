"""What the commands print for people: answers and tables on stdout, progress on stderr."""

from collections.abc import Sequence
from textwrap import wrap
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Rows
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from ..nodes.model_call import accept_rate
from ..nodes.prompts import LETTERS
from .reasoning_rendering import reasoning_panels

if TYPE_CHECKING:
    from ..benchmarks.report.table import Table as Estimates
    from ..nodes.state import ModelCall

_STEPS = {
    "prepare": "reading the input",
    "small_agent": "small agent answers",
    "large_agent": "large agent answers",
    "verification": "comparing the answers",
    "small_reasoning": "small agent reasons",
    "large_reasoning": "large agent reasons",
    "reasoning_verification": "comparing the reasoned answer",
    "reasoning_transfer": "reading the reasoning",
    "respond": "answering",
}

_ROUTES = {
    "direct": "direct: no reasoning was needed",
    "reasoned": "reasoned: an answer that took reasoning",
    "transferred": "transferred: answered after reading a finished reasoning",
}

_FILE_WIDTH = 160
_WIDEST = 10_000
_NARROW = 9
"""Headers are not wrapped to less."""
"""Columns of tables of figures where no terminal says how wide it is."""


class Progress:
    """What is being done right now, a line each with its seconds; gone when it is done.

    Nothing is shown where standard error is not a terminal.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._rows = Rows(
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._running: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._rows.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._rows.stop()

    def start(self, step: str) -> None:
        """Show a step: a node of the graph, or any text."""
        self._running[step] = self._rows.add_task(_STEPS.get(step, step), total=None)

    def note(self, step: str, text: str) -> None:
        """Show a text behind a step that has started."""
        shown = f"{_STEPS.get(step, step)}  [dim]{escape(text)}[/dim]"
        self._rows.update(self._running[step], description=shown)

    def replace(self, step: str) -> None:
        """Show a step instead of all others."""
        for running in list(self._running):
            self.finish(running)
        self.start(step)

    def finish(self, step: str) -> None:
        """Take a step's line away."""
        self._rows.remove_task(self._running.pop(step))


def show_figures(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Print a table of measured figures: name, value, 95% interval, goal."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("figure", no_wrap=True)
    for column in ("value", "95% interval"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    _stdout().print(table)


def show_result(result: dict[str, Any], choices: Sequence[str], *, show_reasoning: bool) -> None:
    """Print the answer (of several choices, with the chosen one's text), the route, each call."""
    console = _stdout()
    answer: str = result["answer"]
    by_letter = dict(zip(LETTERS, choices, strict=False))
    chosen = f"  {by_letter[answer]}" if answer in by_letter else ""
    console.print(Text.assemble(("answer  ", "dim"), (answer, "bold green"), chosen))
    console.print(Text.assemble(("route   ", "dim"), _ROUTES[result["route"]]))
    if result["fallback"]:
        console.print(Text.assemble(("note    ", "dim"), _fallback_note(result["fallback"])))
    for call in result["calls"]:
        if call["error"]:
            console.print(Text.assemble(("failed  ", "bold red"), call["error"]))
    console.print(_calls_table(result["calls"]))
    if show_reasoning:
        for panel in reasoning_panels(result["calls"], console):
            console.print(panel)


def show_pairs(pairs: list[dict[str, str]]) -> None:
    """Print a table of pairs."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("name", no_wrap=True)
    table.add_column("small, large", overflow="fold")
    table.add_column("description (backend)")
    for pair in pairs:
        models = Text(f"{pair['small']}\n{pair['large']}")
        description = Text.assemble(pair["description"], (f" ({pair['backend']})", "dim"))
        table.add_row(Text(pair["name"]), models, description)
    _stdout().print(table)


def show_check(found: dict[str, Any]) -> None:
    """Print what works of a pair, and what does not."""
    console = _stdout()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("role")
    table.add_column("model", overflow="fold")
    table.add_column("answer")
    for column in ("loads (s)", "answers (s)", "peak (MB)"):
        table.add_column(column, justify="right")
    for model in found["models"]:
        seen = (model[key] for key in ("load_seconds", "answer_seconds", "peak_memory_mb"))
        cells = ["-" if value is None else str(value) for value in seen]
        table.add_row(model["role"], Text(model["model"]), Text(model["answer"] or "-"), *cells)
    console.print(table)
    for model in found["models"]:
        if model["error"]:
            console.print(Text.assemble((f"{model['role']}: ", "bold red"), model["error"]))
    if sparse := found["sparse_transfer"]:
        console.print(Text(_sparse_transfer(sparse)))
    if found["ok"]:
        console.print(Text(f"The pair {found['pair']} can be used.", "green"))


def _sparse_transfer(sparse: dict[str, Any]) -> str:
    if sparse["error"]:
        return f"Sparse transfer cannot be used: {sparse['error']}"
    who = {"large": "the large model", "small": "the small model", "selector": "the selector"}
    return (
        f"Sparse transfer selects by the attention of {who[sparse['by']]}, layer {sparse['layer']}."
    )


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of figures; the first column holds names.

    Where the terminal is narrower than the table, the terminal wraps its lines: figures are never
    cut, and names that begin alike stay apart.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for index, column in enumerate(header):
        longest = max((len(row[index]) for row in rows), default=0)
        lines = wrap(column, max(longest, _NARROW), break_long_words=False)
        table.add_column("\n".join(lines), justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = _stdout()
    console.print(Text(title, "italic"), soft_wrap=True)
    needed = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
    console.width = max(console.width, needed)
    console.print(table, soft_wrap=True)
    console.print()


def show_tables(tables: "Sequence[Estimates]") -> Console:
    """Print tables of estimates with their notes, and return the console."""
    console = _stdout()
    if not console.is_terminal:  # a file has no width that things must fit into
        console = Console(highlight=False, width=_FILE_WIDTH)
    for table in tables:
        title = Text(table.title, "bold")
        grid = Table(
            box=None, padding=(0, 2, 0, 0), header_style="dim", title=title, title_justify="left"
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
    return console


def show_lines(title: str, lines: Sequence[str]) -> None:
    """Print sentences under a title, each in a line of its own where no terminal wraps it."""
    console = _stdout()
    console.print(Text(title, "italic"))
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)
    console.print()


def _calls_table(calls: "list[ModelCall]") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("role", "style", "answer"):
        table.add_column(column)
    drafted = any("drafted_tokens" in call for call in calls)
    for column in ("tokens in", "cached", "out", "seconds", *(["accept rate"] if drafted else [])):
        table.add_column(column, justify="right")
    for call in calls:
        table.add_row(
            call["role"],
            Text.assemble(call["style"], (_style_note(call), "dim")),
            Text("-" if call["answer"] is None else call["answer"]),
            *(_count(call[key]) for key in ("input_tokens", "cached_tokens", "output_tokens")),
            f"{call['seconds']:.2f}",
            *([_accept_rate(call)] if drafted else []),
        )
    return table


def _style_note(call: "ModelCall") -> str:
    """What is particular about what a call wrote or read."""
    cut = f" cut: {call['cut']}" if call["cut"] else ""
    selection = call.get("selection")
    if selection is None:
        return cut
    return f" {selection['kept_tokens']} of {selection['reasoning_tokens']} tokens{cut}"


def _accept_rate(call: "ModelCall") -> str:
    rate = accept_rate([call])
    return "-" if rate is None else f"{rate:.1%}"


def _fallback_note(fallback: str) -> str:
    if fallback == "raw_text":
        return "no answer could be read; this is what the model wrote"
    role, style = fallback.split("_")
    return f"this is the {role} model's {style} answer; it is not verified"


def _count(tokens: int | None) -> str:
    return "-" if tokens is None else str(tokens)


def _stdout() -> Console:
    return Console(highlight=False)
