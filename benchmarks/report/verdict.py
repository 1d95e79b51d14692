"""Whether the cascade pays, in one or two sentences."""

import math
from dataclasses import dataclass
from typing import Literal

from ..estimates import Estimate
from .cascade import Cascade
from .table import FEW

REFERENCE = "large_reason"

POINTS_LOST = 0.01
"""A cascade that may lose more than this against the large model's reasoning is called worse."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the figures say.

    Attributes:
        says: "pays", "does not pay", "trades" (faster and less accurate) or "open".
        sentence: The same with its figures.
    """

    says: Literal["pays", "does not pay", "trades", "open"]
    sentence: str


def verdict(found: Cascade) -> Verdict:
    """Does the cascade pay, against the large model's own reasoning?"""
    gap = found.differences.get(REFERENCE)
    if gap is None or gap.value is None:
        return Verdict(
            "open",
            f"Whether the cascade pays is open: {REFERENCE} was not evaluated beside it "
            f"(--strategy {REFERENCE}).",
        )
    interval = "" if gap.low is None else f" ({_points(gap.low)} to {_points(gap.high)})"
    accuracy = (
        f"Against {REFERENCE}, the cascade's accuracy differs by {_points(gap.value)} points"
        f"{interval} on {_measured_on(gap)}"
    )
    time = found.times.get(REFERENCE)
    if time is None or time.value is None:
        return Verdict("open", f"{accuracy}. What it saves is open: time both with --timed.")
    interval = "" if time.low is None else f" ({time.low:.2f} to {time.high:.2f})"
    pace = f"it takes {time.value:.2f}{interval} of the time on {_measured_on(time)}"
    judged = _judged(gap, time)
    return Verdict(judged.says, f"{accuracy}, and {pace}. {judged.sentence}")


def _judged(gap: Estimate, time: Estimate) -> Verdict:
    (low, high), (quick, slow) = _bounds(gap), _bounds(time)
    if quick >= 1:
        return Verdict("does not pay", "It does not pay: it is no faster.")
    if slow >= 1:
        return Verdict("open", "Whether it is faster, so few questions do not tell.")
    if low >= -POINTS_LOST:
        return Verdict("pays", "It pays: faster, and at most 1 point behind.")
    if high < 0:
        return Verdict(
            "trades", "It is faster and less accurate: it pays where that loss is worth the time."
        )
    return Verdict("open", "It is faster; whether it is as accurate, so few questions do not tell.")


def _bounds(estimate: Estimate) -> tuple[float, float]:
    """The interval; without one, the figure could be anything."""
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    return low, high


def _points(gap: float | None) -> str:
    return f"{100 * (gap or 0.0):+.1f}"


def _measured_on(estimate: Estimate) -> str:
    about = ""
    if estimate.clusters is not None and estimate.clusters < FEW:
        about = f" about {estimate.clusters} picture{'s' if estimate.clusters > 1 else ''}"
    return f"{estimate.questions} question{'s' if estimate.questions > 1 else ''}{about}"
