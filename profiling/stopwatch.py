"""Moments in a computation: the clock on a CPU, the device's own events on CUDA."""

import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import torch


class Stopwatch:
    """Marks moments without making the device wait."""

    def __init__(self, device: torch.device) -> None:
        """A stopwatch without marks.

        Args:
            device: Where the work is done.
        """
        self._device = device
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Note this moment, in the order of the device's own work."""
        if self._device.type != "cuda":
            self._marks.append(time.perf_counter())
            return
        make_event: Any = torch.cuda.Event  # torch leaves it untyped
        event = make_event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        self._marks.append(event)

    def seconds(self) -> list[float]:
        """Seconds from the first mark to each one, once the device has got there."""
        first = self._marks[0]
        if self._device.type != "cuda":
            return [mark - first for mark in self._marks]
        torch.cuda.synchronize(self._device)
        return [first.elapsed_time(mark) / 1000 for mark in self._marks]


def time_run(run: Callable[[], object], device: torch.device) -> float:
    """Seconds of a run."""
    watch = Stopwatch(device)
    watch.mark()
    run()
    watch.mark()
    return watch.seconds()[-1]


def time_runs(
    run: Callable[[], object], repeats: int, warmup: int, device: torch.device
) -> list[float]:
    """Seconds of each of several runs, after some that are not counted."""
    for _ in range(warmup):
        run()
    return [time_run(run, device) for _ in range(repeats)]


def spread(seconds: list[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile, in milliseconds."""
    if len(seconds) == 1:
        only = seconds[0] * 1000
        return only, only, only
    low, _, high = quantiles(seconds, n=4, method="inclusive")
    return median(seconds) * 1000, low * 1000, high * 1000
