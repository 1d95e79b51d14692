"""Writes what was measured: JSON, a Markdown table, a plot, and how it came about."""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .speed_records import Record

_PACKAGES = ("langgraph-mai", "langgraph", "langchain-core", "torch", "transformers", "pillow")

GOALS: dict[str, tuple[str, float]] = {
    "wall_over_critical_path": ("at most", 1.10),
    "graph_overhead_ms": ("at most", 3.0),
    "prefix_recomputed_share": ("at most", 0.05),
    "speedup_32_over_1": ("at least", 4.0),
}
"""What the figures should be."""


def make_folder(out: Path) -> None:
    """Make a folder for results, and see that files can be written into it.

    Raises:
        OSError: It cannot be made, or written into.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass


def write_speed(out: Path, records: Sequence[Record], command: Sequence[str]) -> list[Path]:
    """Write bench.json, bench.md, run.json, and bench.png where matplotlib is installed.

    Args:
        out: The folder; it is made.
        records: What was measured.
        command: The exact command.

    Returns:
        The files.

    Raises:
        OSError: They cannot be written.
    """
    make_folder(out)
    texts = {
        "bench.json": json.dumps([record.as_dict() for record in records], indent=1),
        "bench.md": markdown(records),
        "run.json": json.dumps(run_information(command), indent=1),
    }
    for name, text in texts.items():
        (out / name).write_text(text + "\n", encoding="utf-8")
    files = [out / name for name in texts]
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
        interval = "" if record.low is None else f"{record.low:.3g} to {record.high:.3g}"
        lines.append(
            f"| `{record.name}` | {_value(record)} | {interval} | "
            f"{record.questions} | {goal} | {met} |"
        )
    notes = [f"`{record.name}`: {record.note}." for record in records if record.note]
    return "\n".join([*lines, *(line for note in notes for line in ("", note))])


def is_met(record: Record) -> bool | None:
    """Whether a figure meets its goal; None if it has none, or was not measured."""
    if record.name not in GOALS or record.value is None:
        return None
    words, bound = GOALS[record.name]
    return record.value <= bound if words == "at most" else record.value >= bound


def run_information(command: Sequence[str]) -> dict[str, Any]:
    """The command, versions and machine of this run."""
    return {
        "command": list(command),
        "python": sys.version.split()[0],
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "devices": _devices(),
        },
    }


def _value(record: Record) -> str:
    if record.value is None:
        return "not measured"
    unit = "" if record.unit in {"ratio", "share"} else record.unit
    return f"{record.value:.3g} {unit}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _devices() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]


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
            (record, record.value)
            for record in records
            if record.name.startswith(prefix) and record.value is not None
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
