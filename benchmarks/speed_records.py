"""Measured figures with their bootstrap intervals."""

import random
from collections.abc import Sequence
from statistics import median

from ..records.record import Record

_RESAMPLES = 1000


def missing_record(name: str, unit: str, reason: str) -> Record:
    """A figure that could not be measured, and why."""
    return Record(name, None, unit, questions=0, note=reason)


def median_record(name: str, values: Sequence[float], unit: str) -> Record:
    """The median of values, one a question, with its bootstrap interval.

    Raises:
        ValueError: No values.
    """
    if not values:
        raise ValueError(f"nothing was measured for {name}")
    draw = random.Random(0)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    low, high = medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES) - 1]
    return Record(name, median(values), unit, low, high, len(values))


def ratio_record(
    name: str, above: Sequence[float], below: Sequence[float], unit: str = "ratio"
) -> Record:
    """The ratio of two sums over the same questions, with its bootstrap interval.

    Raises:
        ValueError: No values, or different numbers of them.
    """
    if not above or len(above) != len(below):
        raise ValueError(f"{name} needs the same questions above and below")
    draw = random.Random(0)
    at = range(len(above))
    ratios = []
    for _ in range(_RESAMPLES):
        chosen = draw.choices(at, k=len(above))
        ratios.append(sum(above[k] for k in chosen) / (sum(below[k] for k in chosen) or 1e-9))
    ratios.sort()
    low, high = ratios[int(0.025 * _RESAMPLES)], ratios[int(0.975 * _RESAMPLES) - 1]
    return Record(name, sum(above) / (sum(below) or 1e-9), unit, low, high, len(above))
