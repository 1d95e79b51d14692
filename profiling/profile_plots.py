"""Plots of a profile: decoding by output tokens, and what typical calls are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..plotting.figures import new_figure, png
from ..plotting.labels import shortened
from .errors import ProfilingInputError
from .latency import ModelLatency
from .profile_latency import profile_latency
from .profile_rows import ProfileRow

_CALLS = {"S": (0, 2), "R": (0, 256), "transfer": (256, 2)}
"""Tokens read beyond the prompt, and tokens written, in a typical call of each kind."""
_COMPONENTS = ("preprocess", "vision", "prefill", "decode")
_MANY_MILLISECONDS = 10_000


@dataclass(frozen=True, slots=True)
class CallComponents:
    """What a typical call is made of.

    Attributes:
        milliseconds: By component: preprocess, vision, prefill, decode.
        extrapolated: Whether it reads or writes more tokens than were measured, so that its time
            goes on in a straight line from there.
    """

    milliseconds: tuple[float, ...]
    extrapolated: bool


def profile_plots(rows: Sequence[ProfileRow]) -> dict[str, bytes]:
    """PNG files by name: `decode` and `components`; none of what was not measured.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    ways = _by_way([row for row in rows if row.median_ms])
    lines = {label: line for label, own in ways.items() if (line := decode_line(own))}
    bars = call_components(ways)
    return ({"decode": _decode_plot(lines)} if lines else {}) | (
        {"components": _components_plot(bars)} if bars else {}
    )


def decode_line(rows: Sequence[ProfileRow]) -> list[ProfileRow]:
    """Decodings after the smallest prompt that was measured alone, by output tokens."""
    decoded = [row for row in rows if row.component == "decode" and row.batch == 1]
    smallest = min(map(_prompt, decoded), default=None)
    return sorted(
        (row for row in decoded if _prompt(row) == smallest), key=lambda row: row.output_tokens
    )


def call_components(ways: Mapping[str, Sequence[ProfileRow]]) -> dict[str, CallComponents]:
    """What typical S, R and transfer calls about the smallest picture are made of.

    Args:
        ways: Measured rows, all of one model that was run in one way, by how it is called.

    Returns:
        By that name and the kind of call; without what has no time to first token or no decoding.
    """
    found = {}
    for label, rows in ways.items():
        try:
            latency = profile_latency(rows, rows[0].model)
        except ProfilingInputError:
            continue
        alone = sorted((row for row in rows if row.batch == 1), key=_prompt)
        seen = {row.component: row.median_ms or 0.0 for row in reversed(alone)}
        prompt = next(row.input_tokens for row in alone if row.component == "ttft")
        longest = max(row.output_tokens for row in alone if row.component == "decode")
        for call, (read, written) in _CALLS.items():
            found[f"{label} {call}"] = CallComponents(
                _parts(latency, seen, prompt, read, written),
                extrapolated=prompt + read > latency.prefill[-1][0] or written > longest,
            )
    return found


def _decode_plot(lines: Mapping[str, Sequence[ProfileRow]]) -> bytes:
    """Latency against output tokens, a line a model (Figure 1a); bars are quartiles."""
    figure, axes = new_figure(6, 4)
    for label, line in lines.items():
        middle = [row.median_ms or 0.0 for row in line]
        below = [m - (row.low_ms or m) for m, row in zip(middle, line, strict=True)]
        above = [(row.high_ms or m) - m for m, row in zip(middle, line, strict=True)]
        counts = [row.output_tokens for row in line]
        axes.errorbar(
            counts, middle, yerr=[below, above], marker="o", capsize=3, label=shortened(label)
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_title("Decoding after the smallest prompt")
    axes.set_xlabel("output tokens")
    axes.set_ylabel("decoding (ms)")
    axes.legend()
    return png(figure)


def _components_plot(bars: Mapping[str, CallComponents]) -> bytes:
    """Stacked components of typical calls, a bar a model and kind."""
    figure, axes = new_figure(8, 0.42 * len(bars) + 2.0)
    names = [
        f"{shortened(name)} *" if bar.extrapolated else shortened(name)
        for name, bar in bars.items()
    ]
    longest = max(sum(bar.milliseconds) for bar in bars.values())
    unit, scale = ("seconds", 1000.0) if longest > _MANY_MILLISECONDS else ("milliseconds", 1.0)
    left = [0.0] * len(bars)
    for index, component in enumerate(_COMPONENTS):
        widths = [bar.milliseconds[index] / scale for bar in bars.values()]
        axes.barh(range(len(names)), widths, left=left, label=component)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    told = ", ".join(
        f"{call} writes {written} tokens" + (f" and reads {read} more" if read else "")
        for call, (read, written) in _CALLS.items()
    )
    if any(bar.extrapolated for bar in bars.values()):
        told += "\n* more tokens than were measured: continued from there"
    figure.suptitle(told, fontsize=9)
    figure.legend(loc="outside lower center", ncols=len(_COMPONENTS), fontsize=8, frameon=False)
    return png(figure)


def _by_way(rows: Sequence[ProfileRow]) -> dict[str, list[ProfileRow]]:
    """Rows by model, and by what differs in how models were run."""
    ways: dict[tuple[str, ...], list[ProfileRow]] = {}
    for row in rows:
        key = (row.model, *row.settings.values())
        ways.setdefault(key, []).append(row)
    differing = [len(set(values)) > 1 for values in zip(*ways, strict=True)][1:]
    found = {}
    for (model, *settings), own in ways.items():
        told = [
            value for value, differs in zip(settings, differing, strict=True) if differs and value
        ]
        found[f"{model} ({', '.join(told)})" if told else model] = own
    return found


def _prompt(row: ProfileRow) -> tuple[int, int]:
    return row.image_side, row.query_tokens


def _parts(
    latency: ModelLatency, seen: Mapping[Any, float], prompt: int, read: int, written: int
) -> tuple[float, ...]:
    prepared, vision = seen.get("preprocess", 0.0), seen.get("vision", 0.0)
    # What is read beyond the prompt holds no picture.
    seconds = latency.read_seconds(prompt + read, [prompt])
    prefill = max(0.0, seconds * 1000 - prepared - vision)
    decode = latency.seconds_per_token * written * 1000
    return prepared, vision, prefill, decode
