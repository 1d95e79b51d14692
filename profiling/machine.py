"""Time on a device, and what the machine can do at most: matrix products, and memory copies.

Imports torch.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import torch

_TRIES = 3
_SECONDS = 1.0
"""How long runs are repeated, of which the best one counts: other work interrupts some."""
_FIRST_SIDE = 256
_LONG_ENOUGH = 0.001
"""Seconds of a matrix product whose rate counts; longer ones would be interrupted on a busy
machine."""
_COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}


class Stopwatch:
    """Marks moments: the clock on a CPU, the device's own events on CUDA, without waiting."""

    def __init__(self, device: torch.device) -> None:
        """Create one without marks.

        Args:
            device: Where the work is done.
        """
        self._device = device
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Record this moment, in the order of the device's own work."""
        if self._device.type != "cuda":
            self._marks.append(time.perf_counter())
            return
        make_event: Any = torch.cuda.Event  # torch leaves it untyped
        event = make_event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        self._marks.append(event)

    def seconds(self) -> list[float]:
        """Return the seconds from the first mark to each one, once the device is done."""
        first = self._marks[0]
        if self._device.type != "cuda":
            return [mark - first for mark in self._marks]
        torch.cuda.synchronize(self._device)
        return [first.elapsed_time(mark) / 1000 for mark in self._marks]


def time_run(run: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of a run."""
    watch = Stopwatch(device)
    watch.mark()
    run()
    watch.mark()
    return watch.seconds()[-1]


def spread(seconds: list[float]) -> tuple[float, float, float]:
    """Return the median, lower and upper quartile, in milliseconds."""
    low, _, high = quantiles(seconds * 2 if len(seconds) == 1 else seconds, n=4, method="inclusive")
    return median(seconds) * 1000, low * 1000, high * 1000


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
        """Return the least time for some work, and which rate sets it.

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
        torch.cuda.empty_cache()  # an engine in another process may need it
    return rates


def _matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    side, seconds = _FIRST_SIDE, 0.0
    while seconds < _LONG_ENOUGH:
        side *= 2
        left = torch.randn(side, side, device=device).to(dtype)
        right = torch.randn(side, side, device=device).to(dtype)
        _ = left @ right
        seconds = min(time_run(lambda: left @ right, device) for _ in range(_TRIES))  # noqa: B023
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
