"""What the commands print for people: answers and tables on stdout, progress on stderr."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from ..benchmarks.report.table import Cell, Table
from ..nodes.model_call import accept_rate
from ..nodes.prompts import LETTERS
from .progress import PlainConsole

if TYPE_CHECKING:
    from ..nodes.state import ModelCall

_ROUTES = {
    "confident": "confident: the small model alone was sure enough",
    "direct": "direct: no reasoning was needed",
    "reasoned": "reasoned: an answer that took reasoning",
    "transferred": "transferred: answered after reading a finished reasoning",
}
_ATTENDS = {"large": "the large model", "small": "the small model", "selector": "the selector"}

_FILE_WIDTH = 160
_WIDEST = 10_000
_NARROW = 9
"""Headers are not wrapped to less."""


def show_tables(tables: Sequence[Table]) -> None:
    """Print tables with their titles and notes; the first column holds names.

    In wide tables intervals stand below their values. Where the terminal is narrower still, it
    wraps the lines: figures are never cut, and names that begin alike stay apart.
    """
    console = _stdout()
    widest = console.width if console.is_terminal else _FILE_WIDTH
    for table in tables:
        if table.title:
            console.print(Text(table.title, "bold"), soft_wrap=True)
        options = console.options.update(width=_WIDEST)
        grid = _grid(table, " (")
        if console.measure(grid, options=options).maximum > widest:
            grid = _grid(table, "\n(")
        needed = console.measure(grid, options=options).maximum
        console.width = max(console.width, needed)
        console.print(grid, soft_wrap=True)
        show_lines(table.notes)
        console.print()


def _grid(table: Table, before_interval: str) -> Grid:
    cells = [[cell.replace(" (", before_interval) for cell in row] for row in table.cells()]
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(table.columns):
        texts = [row[number] for row in cells]
        longest = max((len(line) for text in texts for line in text.splitlines()), default=0)
        header = "\n".join(wrap(column, max(longest, _NARROW), break_long_words=False))
        figures = number and all(_is_figure(row[number]) for row in table.rows)
        grid.add_column(header, justify="right" if figures else "left", no_wrap=True)
    for row in cells:
        grid.add_row(*map(Text, row))
    return grid


def show_lines(lines: Sequence[str], title: str = "") -> None:
    """Print sentences, each in a line of its own where no terminal wraps it."""
    console = _stdout()
    if title:
        console.print(Text(title, "bold"))
    for line in lines:
        console.print(Text(line, "" if title else "dim"), soft_wrap=not console.is_terminal)
    if title:
        console.print()


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
    if not result["images"]:
        console.print(Text.assemble(("note    ", "dim"), "No image was seen."))
    for call in result["calls"]:
        if call["error"]:
            console.print(Text.assemble(("failed  ", "bold red"), call["error"]))
    show_tables([_calls_table(result["calls"])])
    if show_reasoning:
        for panel in reasoning_panels(result["calls"], console):
            console.print(panel)


def show_pairs(pairs: list[dict[str, str]]) -> None:
    """Print each pair with its models."""
    console = _stdout()
    for pair in pairs:
        models = f"{pair['small']} + {pair['large']}"
        console.print(Text.assemble((pair["name"], "bold"), f"  {models}"), soft_wrap=True)
        console.print(Text(f"    {pair['description']} ({pair['backend']})", "dim"))


def show_check(found: dict[str, Any]) -> None:
    """Print what works of a pair, and what does not."""
    console = _stdout()
    columns = ("role", "model", "answer", "loads (s)", "answers (s)", "peak (MB)")
    keys = ("role", "model", "answer", "load_seconds", "answer_seconds", "peak_memory_mb")
    rows = [
        tuple(None if model[key] is None else str(model[key]) for key in keys)
        for model in found["models"]
    ]
    show_tables([Table("check", "", columns, rows)])
    for model in found["models"]:
        if model["error"]:
            console.print(Text.assemble((f"{model['role']}: ", "bold red"), model["error"]))
    if sparse := found["sparse_transfer"]:
        said = f"Sparse transfer cannot be used: {sparse['error']}"
        if not sparse["error"]:
            who = _ATTENDS[sparse["by"]]
            said = f"Sparse transfer selects by the attention of {who}, layer {sparse['layer']}."
        console.print(Text(said))
    if found["ok"]:
        console.print(Text(f"The pair {found['pair']} can be used.", "green"))


def _is_figure(cell: Cell) -> bool:
    return not isinstance(cell, str) or not cell or cell[0] in "-0123456789."


def _calls_table(calls: "list[ModelCall]") -> Table:
    drafted = any("drafted_tokens" in call for call in calls)
    columns = ("role", "style", "answer", "tokens in", "cached", "out", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for call in calls:
        rate = accept_rate([call])
        rows.append(
            (
                call["role"],
                call["style"] + _style_note(call),
                call["answer"],
                call["input_tokens"],
                call["cached_tokens"],
                call["output_tokens"],
                f"{call['seconds']:.2f}",
                *([None if rate is None else f"{rate:.1%}"] if drafted else []),
            )
        )
    return Table("calls", "", (*columns, *(["accept rate"] if drafted else [])), rows)


def _style_note(call: "ModelCall") -> str:
    """Return what is particular about what a call generated or read."""
    cut = f", cut: {call['cut']}" if call["cut"] else ""
    selection = call.get("selection")
    if selection is None:
        return cut
    return f", {selection['kept_tokens']} of {selection['reasoning_tokens']} tokens{cut}"


def _fallback_note(fallback: str) -> str:
    if fallback == "raw_text":
        return "no answer could be read; this is what the model wrote"
    role, style = fallback.split("_")
    return f"this is the {role} model's {style} answer; it is not verified"


def _stdout() -> Console:
    return PlainConsole(highlight=False)


def reasoning_panels(calls: Sequence[dict[str, Any]], console: Console) -> Iterator[Panel]:
    """Yield what the models wrote while reasoning, a frame each.

    What sparse transfer kept of it is in color where the console has colors, and in brackets where
    it has none.

    Args:
        calls: The calls of a run.
        console: Where the frames will be printed.
    """
    for call in calls:
        if call["style"] not in {"explain", "reason"} or not call["text"]:
            continue
        text, below = Text(call["text"]), None
        selection = _selection_of(call, calls)
        if selection is not None:
            text, below = _marked(call["text"], selection, console), _summary(selection)
        title = f"{call['role']} {call['style']}"
        yield Panel(text, title=title, title_align="left", subtitle=below, subtitle_align="left")


def _selection_of(
    reasoning: dict[str, Any], calls: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return what sparse transfer kept of a reasoning, if it did."""
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
    spans = [(offset + start, offset + end) for start, end in selection["spans"]]
    if console.color_system and not console.no_color:
        marked = Text(text, "dim")
        for start, end in spans:
            marked.stylize("bold green", start, end)
        return marked
    for start, end in reversed(spans):
        kept = text[start:end].strip()
        first = text.index(kept, start)
        text = f"{text[:first]}[{kept}]{text[first + len(kept) :]}"
    return Text(text)
