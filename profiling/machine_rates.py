"""What this machine can do at most: matrix products, and copies of memory.

Imports torch.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .stopwatch import time_run, time_runs

_TRIES = 3
_SECONDS = 1.0
"""How long runs are repeated, of which the best one counts: other work comes in between."""
_FIRST_SIDE = 256
_LONG_ENOUGH = 0.001
"""Seconds of a product whose rate counts; longer ones would not go through without a break where
other work wants the processor."""
_COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}


@dataclass(frozen=True, slots=True)
class MachineRates:
    """Measured rates.

    Attributes:
        flops: Floating-point operations a second of a large matrix product, in the given dtype.
        bandwidth: Bytes a second, read and written, of a copy far larger than the caches.
    """

    flops: float
    bandwidth: float

    def floor_seconds(self, flops: float, moved: float) -> tuple[float, str]:
        """The least time for some work, and which rate sets it.

        Args:
            flops: Floating-point operations.
            moved: Bytes that have to be read or written.

        Returns:
            Seconds, and "compute" or "memory".
        """
        compute, memory = flops / self.flops, moved / self.bandwidth
        return (compute, "compute") if compute >= memory else (memory, "memory")


def measure_rates(device: torch.device, dtype: torch.dtype) -> MachineRates:
    """Measure this machine, the best of many runs each; takes a few seconds."""
    rates = MachineRates(flops=_matrix_rate(device, dtype), bandwidth=_copy_rate(device))
    if device.type == "cuda":
        torch.cuda.empty_cache()  # an engine in another process may want it
    return rates


def _matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    side, seconds = _FIRST_SIDE, 0.0
    while seconds < _LONG_ENOUGH:
        side *= 2
        left = torch.randn(side, side, device=device).to(dtype)
        right = torch.randn(side, side, device=device).to(dtype)
        seconds = min(time_runs(lambda: left @ right, _TRIES, 1, device))  # noqa: B023
    return 2 * side**3 / _best_seconds(lambda: left @ right, device)


def _copy_rate(device: torch.device) -> float:
    kind = device.type if device.type in _COPY_BYTES else "cpu"
    source = torch.ones(_COPY_BYTES[kind], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _best_seconds(lambda: target.copy_(source), device)


def _best_seconds(run: Callable[[], object], device: torch.device) -> float:
    run()
    end, best = time.monotonic() + _SECONDS, math.inf
    while time.monotonic() < end:
        best = min(best, time_run(run, device))
    return best
