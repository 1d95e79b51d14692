"""What this machine can do at most: matrix products, and copies of memory.

Imports torch.
"""

from dataclasses import dataclass

import torch

from .stopwatch import time_runs

_TRIES, _REPEATS = 3, 20
"""Runs to find out how large a product must be, and runs of which the best one counts."""
_FIRST_SIDE = 256
_LONG_ENOUGH = 0.005
"""Seconds of a product whose rate counts; some processors multiply some types very slowly."""
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
    """Measure this machine, the best of a few runs each."""
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
    seconds = min(time_runs(lambda: left @ right, _REPEATS, 0, device))
    return 2 * side**3 / seconds


def _copy_rate(device: torch.device) -> float:
    kind = device.type if device.type in _COPY_BYTES else "cpu"
    source = torch.ones(_COPY_BYTES[kind], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = min(time_runs(lambda: target.copy_(source), _REPEATS, 1, device))
    return 2 * source.numel() / seconds
