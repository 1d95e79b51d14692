"""A profile as tables in the paper's form, figures for programs, and files."""

from collections.abc import Sequence
from pathlib import Path

from ..configs.files import write_whole
from ..records.record import Record, write_records
from .paper_tables import table
from .profile_plots import profile_plots
from .profile_rows import SETTINGS, ProfileRow
from .tables import Table

_TITLES = {
    "preprocess": "Vision preprocessing (Table 1)",
    "vision": "Vision encoder (Table 2)",
    "ttft": "Time to first token, vision encoder included (Table 3)",
    "decode": "Decoding after the first token (Table 4)",
}


def write_profile(rows: Sequence[ProfileRow], folder: Path) -> None:
    """Write `profile.json`, `profile.md` and the plots.

    Args:
        rows: What was measured and skipped.
        folder: Where `profile.csv` is.

    Raises:
        ConfigError: They cannot be written.
    """
    write_records(folder / "profile.json", records(rows))
    write_whole(folder / "profile.md", markdown(tables(rows)))
    for name, drawn in profile_plots(rows).items():
        write_whole(folder / f"{name}.png", drawn)


def records(rows: Sequence[ProfileRow]) -> list[Record]:
    """Every measured latency as a flat figure, and the machine's rates.

    Names have what tells rows apart: settings that differ are in them.
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
    """A table for each component, one of what was skipped, and one of the machine's rates.

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


def markdown(shown: Sequence[Table]) -> str:
    """The tables as Markdown."""
    parts = ["# Component latency", *(table.markdown() for table in shown)]
    return "\n\n".join(parts) + "\n"


def _differing(rows: Sequence[ProfileRow]) -> list[str]:
    """Settings beside the backend that are not the same in all rows."""
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
    """The machine's rates as last measured, by model, backend, dtype and what else differs."""
    return {
        _way(row, differing): (row.gflops, row.gigabytes)
        for row in rows
        if row.median_ms and row.gflops and row.gigabytes
    }


def _skipped(row: ProfileRow) -> list[str]:
    sizes = f"{row.query_tokens}, {row.output_tokens}" if row.query_tokens else ""
    side = str(row.image_side or "")
    return [str(row.batch), row.component, side, sizes, row.skipped]


def _cells(row: ProfileRow, published: dict[tuple[str, ...], str]) -> list[str]:
    median = row.median_ms or 0.0
    rate = 1000 * row.batch * row.output_tokens / median if row.component == "decode" else None
    counts = (row.image_tokens, row.input_tokens, row.output_tokens)
    own = _paper_key(row)
    return [
        str(row.batch),
        str(row.image_side),
        *(str(count) if count else "" for count in counts),
        f"{median:,.2f}",
        _quartiles(row),
        f"{rate:,.1f}" if rate else "",
        "" if row.floor_ms is None else f"{row.floor_ms:,.2f}",
        row.bound,
        "" if row.share is None else f"{row.share:.1%}",
        published.get(own, "") if row.batch == 1 else "",
    ]


def _quartiles(row: ProfileRow) -> str:
    if row.low_ms is None or row.high_ms is None:
        return ""
    return f"{row.low_ms:,.2f} to {row.high_ms:,.2f}"


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
