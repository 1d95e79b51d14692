"""A profile as tables in the paper's form, figures for programs, and plots."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..records.record import Record, write_records
from .latency import ModelLatency
from .paper_tables import table
from .profile_latency import profile_latency
from .profile_rows import ProfileRow
from .tables import Table, markdown_table

_TITLES = {
    "preprocess": "Vision preprocessing (Table 1)",
    "vision": "Vision encoder (Table 2)",
    "ttft": "Time to first token, vision encoder included (Table 3)",
    "decode": "Decoding after the first token (Table 4)",
}
_CALLS = {"S": (0, 2), "R": (0, 256), "transfer": (256, 2)}
"""Tokens read beyond the prompt, and tokens written, in a typical call of each kind."""
_COMPONENTS = ("preprocess", "vision", "prefill", "decode")


def write_profile(
    rows: Sequence[ProfileRow], folder: Path, more: Sequence[tuple[Table, list[Record]]] = ()
) -> None:
    """Write `profile.json`, `profile.md`, `decode.png` and `components.png`.

    Args:
        rows: What was measured and skipped.
        folder: Where `profile.csv` is.
        more: Tables of other measurements, and their figures.
    """
    figures = [figure for _, added in more for figure in added]
    write_records(folder / "profile.json", [*records(rows), *figures])
    text = markdown(rows, [added for added, _ in more])
    (folder / "profile.md").write_text(text, encoding="utf-8")
    if any(row.component == "decode" and row.median_ms for row in rows):
        _plot_decode(rows, folder / "decode.png")
        _plot_components(rows, folder / "components.png")


def records(rows: Sequence[ProfileRow]) -> list[Record]:
    """Every measured latency as a flat figure, and the machine's rates."""
    found: list[Record] = []
    for way, (gflops, gigabytes) in _rates(rows).items():
        name = "machine." + ".".join(way)
        found.append(Record(f"{name}.matrix_rate", gflops, "GFLOP/s"))
        found.append(Record(f"{name}.copy_bandwidth", gigabytes, "GB/s"))
    for row in rows:
        if row.median_ms is None or row.low_ms is None or row.high_ms is None:
            continue
        sizes = f"batch{row.batch}.side{row.image_side}.query{row.query_tokens}"
        what = f"{'.'.join(_way(row))}.{row.attention}.{row.component}"
        name = f"{what}.{sizes}.out{row.output_tokens}"
        found.append(Record(name, row.median_ms, "ms", row.low_ms, row.high_ms))
        if row.share is not None:
            found.append(Record(f"{name}.floor_share", row.share, "share"))
    return found


def tables(rows: Sequence[ProfileRow]) -> list[Table]:
    """A table for each component, one of what was skipped, and one of the machine's rates."""
    header = ["model", "backend", "batch", "side", "image tokens", "input", "output"]
    header += ["median (ms)", "quartiles (ms)", "tokens/s", "floor (ms)", "bound", "floor reached"]
    header += ["paper (ms)"]
    published = _published()
    found = []
    for component, title in _TITLES.items():
        shown = [row for row in rows if row.component == component and row.median_ms]
        if shown:
            found.append((title, header, [_cells(row, published) for row in shown]))
    skipped = [_skipped(row) for row in rows if row.skipped]
    if skipped:
        why = ["model", "backend", "batch", "component", "side", "query, output tokens", "why"]
        found.append(("Skipped", why, skipped))
    rates = [
        [*way, f"{gflops:,.0f}", f"{gigabytes:,.1f}"]
        for way, (gflops, gigabytes) in _rates(rows).items()
    ]
    if rates:
        measured = ["model", "backend", "dtype", "matrix products (GFLOP/s)", "copies (GB/s)"]
        found.append(("What this machine can do, behind the floors", measured, rates))
    return found


def markdown(rows: Sequence[ProfileRow], more: Sequence[Table] = ()) -> str:
    """The tables as Markdown."""
    parts = ["# Component latency", *(markdown_table(shown) for shown in [*tables(rows), *more])]
    return "\n\n".join(parts) + "\n"


def _way(row: ProfileRow) -> tuple[str, str, str]:
    return row.model, row.backend, row.dtype


def _rates(rows: Sequence[ProfileRow]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """The machine's rates as they were last measured, by model, backend and dtype."""
    return {
        _way(row): (row.gflops, row.gigabytes)
        for row in rows
        if row.median_ms and row.gflops and row.gigabytes
    }


def _skipped(row: ProfileRow) -> list[str]:
    sizes = f"{row.query_tokens}, {row.output_tokens}" if row.query_tokens else ""
    side = str(row.image_side or "")
    return [row.model, row.backend, str(row.batch), row.component, side, sizes, row.skipped]


def _cells(row: ProfileRow, published: dict[tuple[str, ...], str]) -> list[str]:
    median = row.median_ms or 0.0
    rate = 1000 * row.batch * row.output_tokens / median if row.component == "decode" else None
    counts = (row.image_tokens, row.input_tokens, row.output_tokens)
    own = _paper_key(row)
    return [
        row.model,
        row.backend,
        str(row.batch),
        str(row.image_side),
        *(str(count) if count else "" for count in counts),
        f"{median:,.2f}",
        f"{row.low_ms:,.2f} to {row.high_ms:,.2f}",
        f"{rate:,.1f}" if rate else "",
        f"{row.floor_ms:,.2f}",
        row.bound,
        f"{row.share:.1%}" if row.share else "",
        published.get(own, "") if row.batch == 1 else "",
    ]


def _paper_key(row: ProfileRow) -> tuple[str, ...]:
    if row.component in {"preprocess", "vision"}:
        return (row.component, row.model, str(row.image_side))
    key = (row.component, row.model, str(row.image_side), str(row.input_tokens))
    return key if row.component == "ttft" else (*key, str(row.output_tokens))


def _published() -> dict[tuple[str, ...], str]:
    """The paper's figures by what they measure; its GPU is not this machine."""
    found: dict[tuple[str, ...], str] = {}
    for component, name in (
        ("preprocess", "table01_vision_preprocess_ms"),
        ("vision", "table02_vision_encoder_ms"),
    ):
        for row in table(name):
            found[component, row["model"], row["image_side_px"]] = row["latency_ms"]
    for row in table("table03_ttft_ms"):
        found["ttft", row["model"], row["image_side_px"], row["total_tokens"]] = row["ttft_ms"]
    for row in table("table04_decode_ms"):
        sizes = (row["image_side_px"], row["input_tokens"], row["output_tokens"])
        found["decode", row["model"], *sizes] = row["decode_ms"]
    return found


def _plot_decode(rows: Sequence[ProfileRow], path: Path) -> None:
    """Latency against output tokens, a line a model (Figure 1a); bars are quartiles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for label, own in _by_way(rows).items():
        decoded = [row for row in own if row.component == "decode" and row.batch == 1]
        first = [row for row in decoded if row.median_ms and _prompt(row) == _prompt(decoded[0])]
        first.sort(key=lambda row: row.output_tokens)
        middle = [row.median_ms or 0.0 for row in first]
        below = [m - (row.low_ms or m) for m, row in zip(middle, first, strict=True)]
        above = [(row.high_ms or m) - m for m, row in zip(middle, first, strict=True)]
        counts = [row.output_tokens for row in first]
        axis.errorbar(counts, middle, yerr=[below, above], marker="o", capsize=3, label=label)
    axis.set_xlabel("output tokens")
    axis.set_ylabel("decoding (ms)")
    axis.legend()
    figure.savefig(path, dpi=120)


def _prompt(row: ProfileRow) -> tuple[int, int]:
    return row.image_side, row.query_tokens


def _plot_components(rows: Sequence[ProfileRow], path: Path) -> None:
    """Stacked components of a typical S, R and transfer call, a bar a model and kind."""
    from matplotlib.figure import Figure

    bars = _call_components(rows)
    figure = Figure(figsize=(8, 0.5 * len(bars) + 1.5), layout="constrained")
    axis = figure.subplots()
    left = [0.0] * len(bars)
    for index, component in enumerate(_COMPONENTS):
        widths = [parts[index] for parts in bars.values()]
        axis.barh(list(bars), widths, left=left, label=component)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set_xlabel("milliseconds")
    axis.legend()
    figure.savefig(path, dpi=120)


def _call_components(rows: Sequence[ProfileRow]) -> dict[str, list[float]]:
    """Milliseconds of each component by model and kind of call, for the smallest picture."""
    found = {}
    for label, rows_of_way in _by_way(rows).items():
        plain: list[Any] = [
            {k: str(v or "") for k, v in asdict(row).items()} for row in rows_of_way
        ]
        try:
            latency = profile_latency(plain, rows_of_way[0].model)
        except (KeyError, ValueError):
            continue
        own = [row for row in rows_of_way if row.batch == 1 and row.median_ms]
        seen = {row.component: row.median_ms or 0.0 for row in reversed(own)}
        prompt = next(row.input_tokens for row in own if row.component == "ttft")
        for call, (read, written) in _CALLS.items():
            found[f"{label} {call}"] = _parts(latency, seen, prompt + read, written)
    return found


def _by_way(rows: Sequence[ProfileRow]) -> dict[str, list[ProfileRow]]:
    """Rows by model, and by what differs in how models were run."""
    ways: dict[tuple[str, ...], list[ProfileRow]] = {}
    for row in rows:
        if row.component != "weights":
            key = (row.model, row.backend, row.dtype, row.device, row.attention, row.weights)
            ways.setdefault(key, []).append(row)
    differing = [len(set(values)) > 1 for values in zip(*ways, strict=True)][1:]
    found = {}
    for (model, *settings), own in ways.items():
        told = [value for value, differs in zip(settings, differing, strict=True) if differs]
        found[f"{model} ({', '.join(told)})" if told else model] = own
    return found


def _parts(latency: ModelLatency, seen: dict[Any, float], prompt: int, written: int) -> list[float]:
    vision = seen.get("vision", 0.0)
    prefill = max(0.0, latency.prefill_seconds(prompt) * 1000 - vision)
    decode = latency.seconds_per_token * written * 1000
    return [seen.get("preprocess", 0.0), vision, prefill, decode]
