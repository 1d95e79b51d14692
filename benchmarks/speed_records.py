"""Measured figures with their intervals."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Record:
    """A measured number.

    Attributes:
        name: What was measured.
        value: In the unit of `unit`; None if it could not be measured.
        unit: "ratio", "share", "ms" or "questions/s".
        low: Lower end of the 95% interval, None if there is none.
        high: Upper end.
        questions: Number of questions that it was measured on.
        note: Why there is no value, or what it was measured on besides; empty if that is all.
    """

    name: str
    value: float | None
    unit: str
    low: float | None
    high: float | None
    questions: int
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The record as plain data."""
        return asdict(self)


def missing_record(name: str, unit: str, reason: str) -> Record:
    """A figure that could not be measured, and why."""
    return Record(name, None, unit, None, None, 0, reason)


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
