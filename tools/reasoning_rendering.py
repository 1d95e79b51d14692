"""Reasonings as people see them: which words of them were handed over is marked."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

_BORDER = len("│ ") + len(" │")


def reasoning_panels(calls: Sequence[dict[str, Any]], console: Console) -> Iterator[Panel]:
    """What the models wrote while reasoning, a frame each.

    What sparse transfer handed over of it is in colour where the console has colours, and
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
    """What sparse transfer handed over of a reasoning, if it did."""
    selections: list[dict[str, Any]] = [call["selection"] for call in calls if "selection" in call]
    own = (one for one in selections if one["reasoning"] in reasoning["text"])
    return next(own, None) if reasoning["style"] == "reason" else None


def _summary(selection: dict[str, Any]) -> str:
    how = "" if selection["keep"] == "attention" else f" (keep: {selection['keep']})"
    held = ""
    if selection["reached"] is not None:
        held = f", {selection['reached']:.0%} of the attention at layer {selection['layer']}"
    kept, total = selection["kept_tokens"], selection["reasoning_tokens"]
    return f"handed over: {kept} of {total} tokens{how}{held}"


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
