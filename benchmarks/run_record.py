"""What a measurement was made with: the command, the versions, the machine."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "langgraph-mai",
    "langgraph",
    "langchain-core",
    "torch",
    "transformers",
    "vllm",
    "numpy",
    "pillow",
)


def write_run_record(folder: Path, *, name: str = "run.json", **facts: Any) -> None:
    """Write how the files of a folder came about.

    Args:
        folder: Where the results are.
        name: Name of the record's file.
        **facts: What else is known, as JSON values.
    """
    record = {
        "command": shlex.join(["mai", *sys.argv[1:]]),
        **facts,
        "python": platform.python_version(),
        "versions": _versions(),
        "machine": _machine(),
    }
    (folder / name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _versions() -> Mapping[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    """The processor, its cores that this process may use, and GPUs if torch is in use."""
    usable = getattr(os, "sched_getaffinity", None)
    torch: Any = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_available():
        gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": _processor_name(),
        "cores": len(usable(0)) if usable else os.cpu_count(),
        "gpus": gpus,
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
