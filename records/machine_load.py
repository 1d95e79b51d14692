"""How busy others keep the machine, as far as this process can see."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STATISTICS = Path("/proc/stat")
_IDLE = (3, 4)  # columns: idle, waiting for a disk


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """What others do on the machine at one moment, while this process does nothing.

    Attributes:
        cores: Cores that this process may use.
        busy_cores: How many of them were at work, on average; None where the system does not tell.
        load_average: The system's, over the last minute, which may hold this process's own work;
            None where there is none.
    """

    cores: int
    busy_cores: float | None
    load_average: float | None

    @property
    def is_busy(self) -> bool:
        """Whether more than half of the cores are at work for others."""
        return self.busy_cores is not None and self.busy_cores > self.cores / 2

    def warning(self, when: str) -> str | None:
        """A sentence for whoever measures time on a busy machine; None on an idle one.

        Args:
            when: When this was, such as "before the timing".
        """
        if not self.is_busy:
            return None
        return (
            f"Other programs kept {self.busy_cores:.1f} of {self.cores} cores at work {when}; "
            "measure on an idle machine."
        )


def machine_load(seconds: float = 0.5) -> MachineLoad:
    """Look at the machine for a moment, doing nothing.

    Args:
        seconds: How long.
    """
    cores = _usable_cores()
    before = _ticks(cores)
    time.sleep(seconds)
    after = _ticks(cores)
    busy = None
    if before and after and (all_ticks := sum(after) - sum(before)):
        busy = len(cores) * (after[0] - before[0]) / all_ticks
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return MachineLoad(len(cores), busy, average)


def _usable_cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _ticks(cores: set[int]) -> tuple[int, int] | None:
    """Ticks at work and idle, of these cores together."""
    try:
        lines = _STATISTICS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = {f"cpu{core}" for core in cores}
    work = idle = 0
    for name, *columns in filter(None, map(str.split, lines)):
        if name in names:
            ticks = list(map(int, columns[:8]))  # the rest is in them already
            resting = sum(ticks[column] for column in _IDLE)
            work, idle = work + sum(ticks) - resting, idle + resting
    return work, idle
