"""Writes what was measured: JSON, a Markdown table, a plot, and how it came about."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..configs.files import write_whole, writing
from ..records.record import Record, write_records
from ..records.run_record import write_run_record

GOALS: dict[str, tuple[str, float]] = {
    "wall_over_critical_path": ("at most", 1.10),
    "graph_overhead_ms": ("at most", 3.0),
    "prefix_recomputed_share": ("at most", 0.05),
    "speedup_32_over_1": ("at least", 4.0),
}
"""What the figures should be."""


def write_speed(out: Path, records: Sequence[Record], **settings: Any) -> list[Path]:
    """Write bench.json, bench.md, run.json, and bench.png where matplotlib is installed.

    Args:
        out: The folder; it is made.
        records: What was measured.
        **settings: What the command was given, its defaults included.

    Returns:
        The files.

    Raises:
        ConfigError: They cannot be written.
    """
    write_records(out / "bench.json", records)
    write_whole(out / "bench.md", markdown(records) + "\n")
    write_run_record(out, settings=settings)
    files = [out / name for name in ("bench.json", "bench.md", "run.json")]
    with writing(out):
        return [*files, *_plot(out / "bench.png", records)]


def markdown(records: Sequence[Record]) -> str:
    """A table of all figures, with their goals."""
    lines = [
        "| figure | value | 95% interval | questions | goal | met |",
        "|---|---|---|---|---|---|",
    ]
    for record in records:
        goal, met = "", ""
        if record.name in GOALS:
            words, bound = GOALS[record.name]
            goal = f"{words} {bound:g}"
            met = {True: "yes", False: "**no**", None: "not measured"}[is_met(record)]
        lines.append(
            f"| `{record.name}` | {_value(record)} | {interval(record)} | "
            f"{record.questions} | {goal} | {met} |"
        )
    notes = [f"`{record.name}`: {record.note}." for record in records if record.note]
    return "\n".join([*lines, *(line for note in notes for line in ("", note))])


def is_met(record: Record) -> bool | None:
    """Whether a figure meets its goal; None if it has none, or was not measured."""
    if record.name not in GOALS or record.number is None:
        return None
    words, bound = GOALS[record.name]
    return record.number <= bound if words == "at most" else record.number >= bound


def interval(record: Record) -> str:
    """A figure's interval in words; empty if it has none."""
    return "" if record.low is None else f"{record.low:.3g} to {record.high:.3g}"


def _value(record: Record) -> str:
    if record.number is None:
        return "not measured"
    unit = "" if record.unit in {"ratio", "share"} else record.unit
    return f"{record.number:.3g} {unit}"


def _plot(path: Path, records: Sequence[Record]) -> list[Path]:
    """Three panels: the critical path, the gains, the throughput; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    panels = {
        "Wall time over critical path": "wall_over_critical_path",
        "Gain of each saving": "gain.",
        "Questions a second, at once": "questions_per_second.",
    }
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    axes = figure.subplots(1, len(panels))
    for axis, (title, prefix) in zip(axes, panels.items(), strict=True):
        shown = [
            (record, record.number)
            for record in records
            if record.name.startswith(prefix) and record.number is not None
        ]
        names = [record.name.removeprefix(prefix).strip(".") or "all" for record, _ in shown]
        values = [value for _, value in shown]
        errors = [
            [value - (record.low or value) for record, value in shown],
            [(record.high or value) - value for record, value in shown],
        ]
        axis.barh(names[::-1], values[::-1], xerr=[side[::-1] for side in errors], color="#4878a8")
        axis.set_title(title)
        if prefix != "questions_per_second.":
            axis.axvline(1, color="black", linewidth=0.8)
    figure.savefig(path, dpi=120)
    return [path]
