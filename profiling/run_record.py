"""`run.json`: the command, versions and machine behind a folder of figures."""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

_PACKAGES = ("langgraph-mai", "langgraph", "simpy", "torch", "transformers", "vllm")


class Record(TypedDict):
    """One figure of a `NAME.json`."""

    name: str
    value: float | str | None
    unit: str
    low: NotRequired[float]
    high: NotRequired[float]
    questions: NotRequired[int]


def write_run(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write `run.json`.

    Args:
        folder: Where the figures are.
        settings: What the command was given, its defaults included.
    """
    torch = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None
    write_json(
        folder / "run.json",
        {
            "command": ["mai", *sys.argv[1:]],
            "settings": {key: _plain(value) for key, value in settings.items()},
            "versions": {"python": platform.python_version()} | _versions(),
            "machine": {
                "system": platform.platform(),
                "processor": _processor(),
                "cpus": os.cpu_count(),
                "gpu": gpu,
            },
        },
    )


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write a list of figures."""
    write_json(path, list(records))


def write_json(path: Path, value: object) -> None:
    """Write JSON whole: a reader never sees half of it."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
