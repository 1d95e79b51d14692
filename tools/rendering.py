"""What the commands print for people: answers and tables on stdout, progress on stderr."""

from collections.abc import Container, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..nodes.model_call import accept_rate
from ..nodes.prompts import LETTERS

if TYPE_CHECKING:
    from ..benchmarks.report.table import Table as Estimates
    from ..nodes.state import ModelCall


_ROUTES = {
    "confident": "confident: the small model alone was sure enough",
    "direct": "direct: no reasoning was needed",
    "reasoned": "reasoned: an answer that took reasoning",
    "transferred": "transferred: answered after reading a finished reasoning",
}

_FILE_WIDTH = 160
_BORDER = len("│ ") + len(" │")
_WIDEST = 10_000
_NARROW = 9
"""Headers are not wrapped to less."""
"""Columns of tables of figures where no terminal says how wide it is."""


def figure_table(*columns: str, words: Container[str] = ()) -> Table:
    """Create a table without lines.

    Args:
        *columns: Headers; the first column holds names, which are not wrapped.
        words: Other columns that hold words, not figures.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        side: Literal["left", "right"] = "left" if not number or column in words else "right"
        table.add_column(column, justify=side, no_wrap=not number, overflow="fold")
    return table


def show_figures(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Print a table of measured figures: name, value, 95% interval, goal."""
    table = figure_table("figure", "value", "95% interval", "goal", words={"goal"})
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
    if result["confidence"] is not None:
        sure = f"{result['confidence']:.1%} of such answers were right"
        console.print(Text.assemble(("sure    ", "dim"), sure))
    if result["gate"] and result["gate"]["off"]:
        console.print(Text.assemble(("note    ", "dim"), result["gate"]["off"]))
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
    columns = ("name", "small, large", "description (backend)")
    table = figure_table(*columns, words=columns)
    for pair in pairs:
        models = Text(f"{pair['small']}\n{pair['large']}")
        description = Text.assemble(pair["description"], (f" ({pair['backend']})", "dim"))
        table.add_row(Text(pair["name"]), models, description)
    _stdout().print(table)


def show_check(found: dict[str, Any]) -> None:
    """Print what works of a pair, and what does not."""
    console = _stdout()
    columns = ("role", "model", "answer", "loads (s)", "answers (s)", "peak (MB)")
    table = figure_table(*columns, words={"model", "answer"})
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
        grid = figure_table(*table.columns, words=table.columns)
        grid.title, grid.title_justify = Text(table.title, "bold"), "left"
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
    drafted = any("drafted_tokens" in call for call in calls)
    columns = ("role", "style", "answer", "tokens in", "cached", "out", "seconds")
    words = {"style", "answer"}
    table = figure_table(*columns, *(["accept rate"] if drafted else []), words=words)
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


def reasoning_panels(calls: Sequence[dict[str, Any]], console: Console) -> Iterator[Panel]:
    """What the models wrote while reasoning, a frame each.

    What sparse transfer kept of it is in color where the console has colors, and
    underlined by a line of ^ where it has none.

    Args:
        calls: The calls of a run.
        console: Where the frames will be printed.
    """
    for call in calls:
        if call["style"] not in {"explain", "reason"} or not call["text"]:
            continue
        title = f"{call['role']} {call['style']}"
        selection = _selection_of(call, calls)
        if selection is None:
            yield Panel(Text(call["text"]), title=title, title_align="left")
            continue
        yield Panel(
            _marked(call["text"], selection, console),
            title=title,
            title_align="left",
            subtitle=_summary(selection),
            subtitle_align="left",
        )


def _selection_of(
    reasoning: dict[str, Any], calls: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """What sparse transfer kept of a reasoning, if it did."""
    selections: list[dict[str, Any]] = [call["selection"] for call in calls if "selection" in call]
    own = (one for one in selections if one["reasoning"] in reasoning["text"])
    return next(own, None) if reasoning["style"] == "reason" else None


def _summary(selection: dict[str, Any]) -> str:
    how = "" if selection["keep"] == "attention" else f" (keep: {selection['keep']})"
    held = ""
    if selection["reached"] is not None:
        held = f", {selection['reached']:.0%} of the attention at layer {selection['layer']}"
    kept, total = selection["kept_tokens"], selection["reasoning_tokens"]
    return f"transferred: {kept} of {total} tokens{how}{held}"


def _marked(text: str, selection: dict[str, Any], console: Console) -> Text:
    offset = text.index(selection["reasoning"])
    marked = Text(text)
    for start, end in selection["spans"]:
        marked.stylize("bold green", offset + start, offset + end)
    if console.color_system and not console.no_color:
        marked.style = "dim"
        return marked
    return _underlined(marked, console)


def _underlined(marked: Text, console: Console) -> Text:
    """The text in lines of the console's width, below each the marks of its styled characters."""
    lines: list[str] = []
    for line in marked.wrap(console, console.width - _BORDER):
        lines.append(line.plain)
        below = [" "] * cell_len(line.plain)
        for span in line.spans:
            for index in range(span.start, min(span.end, len(line.plain))):
                first, last = (cell_len(line.plain[:at]) for at in (index, index + 1))
                if not line.plain[index].isspace():
                    below[first:last] = "^" * (last - first)
        if marks := "".join(below).rstrip():
            lines.append(marks)
    return Text("\n".join(lines))
