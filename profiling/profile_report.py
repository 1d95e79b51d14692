"""A profile as tables in the paper's form, figures for programs, plots and files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..benchmarks.plotting import new_figure, png, shortened
from ..benchmarks.records import Record, write_records
from ..configs.files import write_whole
from .paper import table
from .profile_rows import SETTINGS, ProfileRow
from .tables import Table

_TITLES = {
    "preprocess": "Vision preprocessing (Table 1)",
    "vision": "Vision encoder (Table 2)",
    "ttft": "Time to first token, vision encoder included (Table 3)",
    "decode": "Decoding after the first token (Table 4)",
}


def write_profile(rows: Sequence[ProfileRow], folder: Path) -> None:
    """Write `profile.json`, `profile.md` and `decode.png`.

    Args:
        rows: What was measured and skipped.
        folder: Where `profile.csv` is.

    Raises:
        ConfigError: They cannot be written, or matplotlib is not installed.
    """
    write_records(folder / "profile.json", records(rows))
    parts = ["# Component latency", *(table.markdown() for table in tables(rows))]
    write_whole(folder / "profile.md", "\n\n".join(parts) + "\n")
    ways = _by_way([row for row in rows if row.median_ms])
    lines = {label: line for label, own in ways.items() if (line := decode_line(own))}
    if lines:
        write_whole(folder / "decode.png", _decode_plot(lines))


def records(rows: Sequence[ProfileRow]) -> list[Record]:
    """Return every measured latency as a flat figure, and the machine's rates.

    Names contain the settings that tell rows apart.
    """
    found: list[Record] = []
    differing = [name for name in _differing(rows) if name not in {"dtype", "attention"}]
    for way, (gflops, gigabytes) in _rates(rows, differing).items():
        name = ".".join(["machine", *way[:3], *_named(differing, way[3:])])
        found.append(Record(f"{name}.matrix_rate", gflops, "GFLOP/s"))
        found.append(Record(f"{name}.copy_bandwidth", gigabytes, "GB/s"))
    for row in rows:
        if row.median_ms is None:
            continue
        way = _way(row, differing)
        what = [*way[:3], *_named(differing, way[3:]), row.attention, row.component]
        sizes = [f"batch{row.batch}", f"side{row.image_side}", f"query{row.query_tokens}"]
        name = ".".join([*what, *sizes, f"out{row.output_tokens}"])
        figures = (row.median_ms, row.low_ms, row.high_ms)
        median, low, high = (None if one is None else round(one, 4) for one in figures)
        found.append(Record(name, median, "ms", low, high))
        if row.share is not None:
            found.append(Record(f"{name}.floor_share", round(row.share, 4), "share"))
    return found


def tables(rows: Sequence[ProfileRow]) -> list[Table]:
    """Return a table for each component, for what was skipped, and for the machine's rates.

    Settings have a column where they are not the same in all rows.
    """
    differing = _differing(rows)
    run = ["model", "backend", *differing]
    header = [*run, "batch", "side", "image tokens", "input", "output"]
    header += ["median (ms)", "quartiles (ms)", "tokens/s", "floor (ms)", "bound", "floor reached"]
    header += ["paper (ms)"]
    published = _published()
    found = []
    for component, title in _TITLES.items():
        shown = [row for row in rows if row.component == component and row.median_ms]
        if shown:
            cells = [[*_run(row, differing), *_cells(row, published)] for row in shown]
            found.append(Table(component, title, header, cells).filled())
    skipped = [[*_run(row, differing), *_skipped(row)] for row in rows if row.skipped]
    if skipped:
        why = [*run, "batch", "component", "side", "query, output tokens", "why"]
        found.append(Table("skipped", "Skipped", why, skipped))
    others = [name for name in differing if name != "dtype"]
    rates = [
        [*way, f"{gflops:,.0f}", f"{gigabytes:,.1f}"]
        for way, (gflops, gigabytes) in _rates(rows, others).items()
    ]
    if rates:
        measured = ["model", "backend", "dtype", *others]
        measured += ["matrix products (GFLOP/s)", "copies (GB/s)"]
        title = "What this machine can do, behind the floors"
        found.append(Table("machine", title, measured, rates))
    return found


def _differing(rows: Sequence[ProfileRow]) -> list[str]:
    """Return the settings beside the backend that are not the same in all rows."""
    ran = [row.settings for row in rows if row.component != "weights"]
    return [name for name in SETTINGS[1:] if len({settings[name] for settings in ran}) > 1]


def _run(row: ProfileRow, differing: Sequence[str]) -> list[str]:
    return [row.model, row.backend, *(row.settings[name] for name in differing)]


def _way(row: ProfileRow, differing: Sequence[str]) -> tuple[str, ...]:
    return row.model, row.backend, row.dtype, *(row.settings[name] for name in differing)


def _named(names: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f"{name}={value}" for name, value in zip(names, values, strict=True) if value]


def _rates(
    rows: Sequence[ProfileRow], differing: Sequence[str]
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return the machine's rates as last measured, by model, backend, dtype and what differs."""
    return {
        _way(row, differing): (row.gflops, row.gigabytes)
        for row in rows
        if row.median_ms and row.gflops and row.gigabytes
    }


def _skipped(row: ProfileRow) -> list[str]:
    sizes = f"{row.query_tokens}, {row.output_tokens}" if row.query_tokens else ""
    return [str(row.batch), row.component, str(row.image_side or ""), sizes, row.skipped]


def _cells(row: ProfileRow, published: Mapping[tuple[str, ...], str]) -> list[str]:
    median = row.median_ms or 0.0
    rate = 1000 * row.batch * row.output_tokens / median if row.component == "decode" else None
    counts = (row.image_tokens, row.input_tokens, row.output_tokens)
    quartiles = ""
    if row.low_ms is not None and row.high_ms is not None:
        quartiles = f"{row.low_ms:,.2f} to {row.high_ms:,.2f}"
    return [
        str(row.batch),
        str(row.image_side),
        *(str(count) if count else "" for count in counts),
        f"{median:,.2f}",
        quartiles,
        f"{rate:,.1f}" if rate else "",
        "" if row.floor_ms is None else f"{row.floor_ms:,.2f}",
        row.bound,
        "" if row.share is None else f"{row.share:.1%}",
        published.get(_paper_key(row), "") if row.batch == 1 else "",
    ]


def _paper_key(row: ProfileRow) -> tuple[str, ...]:
    key = (row.component, row.model, str(row.image_side))
    sizes = {"ttft": (row.input_tokens,), "decode": (row.input_tokens, row.output_tokens)}
    return key + tuple(map(str, sizes.get(row.component, ())))


def _published() -> dict[tuple[str, ...], str]:
    """Return the paper's figures by `_paper_key`; its GPU is not this machine."""
    sources = (
        ("preprocess", "table01_vision_preprocess_ms", "latency_ms", ()),
        ("vision", "table02_vision_encoder_ms", "latency_ms", ()),
        ("ttft", "table03_ttft_ms", "ttft_ms", ("total_tokens",)),
        ("decode", "table04_decode_ms", "decode_ms", ("input_tokens", "output_tokens")),
    )
    return {
        (component, row["model"], row["image_side_px"], *(row[size] for size in sizes)): row[figure]
        for component, name, figure, sizes in sources
        for row in table(name)
    }


def decode_line(rows: Sequence[ProfileRow]) -> list[ProfileRow]:
    """Return the decodings after the smallest prompt at batch 1, by output tokens."""
    decoded = [row for row in rows if row.component == "decode" and row.batch == 1]
    smallest = min(map(_prompt, decoded), default=None)
    return sorted(
        (row for row in decoded if _prompt(row) == smallest), key=lambda row: row.output_tokens
    )


def _prompt(row: ProfileRow) -> tuple[int, int]:
    return row.image_side, row.query_tokens


def _by_way(rows: Sequence[ProfileRow]) -> dict[str, list[ProfileRow]]:
    """Return rows by model, and by what differs in how models were run."""
    ways: dict[tuple[str, ...], list[ProfileRow]] = {}
    for row in rows:
        ways.setdefault((row.model, *row.settings.values()), []).append(row)
    differs = [len(set(values)) > 1 for values in zip(*ways, strict=True)][1:]
    found = {}
    for (model, *settings), own in ways.items():
        shown = [value for value, one in zip(settings, differs, strict=True) if one and value]
        found[f"{model} ({', '.join(shown)})" if shown else model] = own
    return found


def _decode_plot(lines: Mapping[str, Sequence[ProfileRow]]) -> bytes:
    """Latency against output tokens, a line a model (Figure 1a); bars are quartiles."""
    figure, (axes,) = new_figure(6, 4)
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
