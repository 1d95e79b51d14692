"""How much memory is free, as far as the system tells."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def free_device_memory(device: "torch.device") -> int | None:
    """Bytes that are free on a device, None if it does not tell."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return free_memory() if device.type == "cpu" else None


def free_memory() -> int | None:
    """Bytes of main memory this process may still take, None if the system does not tell.

    The smaller of what the machine has available and what the control group allows (containers).
    """
    found = [size for size in (_machine(), _control_group()) if size is not None]
    return min(found, default=None)


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        pass
    else:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _control_group() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        statistics = (folder / "memory.stat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    # File pages count as used but are given up when memory is short.
    cached = dict(zip(statistics[::2], statistics[1::2], strict=False)).get("inactive_file", "0")
    return max(0, int(limit) - used + int(cached))
