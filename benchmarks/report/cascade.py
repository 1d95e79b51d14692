"""What the cascade does: its routes, what transfers repaired and spoiled, and whether it pays."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...nodes.state import Route
from ..statistics import Estimate
from .evaluated import Evaluated, difference, grade, proportion
from .table import Cell, images_if_few

ROUTES: tuple[Route, ...] = ("direct", "reasoned", "transferred")

REFERENCE = "large_reason"

Says = Literal["pays", "does not pay", "trades", "open"]

POINTS_LOST = 0.01
"""A cascade that may lose more than this against the large model's reasoning is called worse."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the figures say.

    Attributes:
        says: "pays", "does not pay", "trades" (faster and less accurate) or "open".
        sentence: The same with its figures.
    """

    says: Says
    sentence: str


def route_rows(run: Evaluated, protocol: str) -> Iterator[tuple[Cell, ...]]:
    """Yield each route of the cascade.

    Args:
        run: The evaluation; without a cascade, there are no rows.
        protocol: Whose reading of the outputs counts.

    Yields:
        The route; its share of all questions; its accuracy; how often its answer is wrong though
        two answers agree; of the transfers, how many turned a wrong direct answer of the large
        model right, and how many a right one wrong.
    """
    column = f"grade.{protocol}"
    if not len(run.of("mai")):
        return
    rows = run.of("mai").dropna(subset=["route", column])
    before = grade(run.benchmark, run.calls_of("mai", "large", "direct")["text"])[column]
    for route in ROUTES:
        own = rows[rows["route"] == route]
        last: tuple[Cell, ...] = (proportion(own, own[column] < 1), None, None)
        if route == "transferred":
            moved = (own[column] - before.reindex(own.index)).dropna()
            last = (None, proportion(own, moved > 0), proportion(own, moved < 0))
        share = proportion(rows, rows["route"] == route)
        yield (route, share, proportion(own, own[column]), *last)


def verdict(run: Evaluated, protocol: str) -> Verdict | None:
    """Judge whether a run's cascade pays; None if it was not evaluated."""
    if not len(run.of("mai")):
        return None
    gap = difference(run.of("mai"), run.of(REFERENCE), protocol)
    return judge(gap, run.time_ratio("mai", REFERENCE))


def judge(gap: Estimate, time: Estimate) -> Verdict:
    """Judge whether the cascade pays, against the large model's own reasoning.

    Args:
        gap: Its accuracy minus that of the large model's reasoning.
        time: Its seconds over those of the large model's reasoning.
    """
    if gap.value is None:
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
    if time.value is None:
        return Verdict("open", f"{accuracy}. What it saves is open: time both with --timed.")
    interval = "" if time.low is None else f" ({time.low:.2f} to {time.high:.2f})"
    pace = f"it takes {time.value:.2f}{interval} of the time on {_measured_on(time)}"
    says, conclusion = _conclusion(gap, time)
    return Verdict(says, f"{accuracy}, and {pace}. {conclusion}")


def _conclusion(gap: Estimate, time: Estimate) -> tuple[Says, str]:
    (low, high), (quick, slow) = _bounds(gap), _bounds(time)
    if quick >= 1:
        return "does not pay", "It does not pay: it is no faster."
    if slow >= 1:
        return "open", "Whether it is faster, so few questions do not tell."
    if low >= -POINTS_LOST:
        return "pays", "It pays: faster, and at most 1 point behind."
    if high < 0:
        loss = "it pays where that loss is worth the time"
        return "trades", f"It is faster and less accurate: {loss}."
    return "open", "It is faster; whether it is as accurate, so few questions do not tell."


def _bounds(estimate: Estimate) -> tuple[float, float]:
    """Return the interval; without one, the figure could be anything."""
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    return low, high


def _points(gap: float | None) -> str:
    return f"{100 * (gap or 0.0):+.1f}"


def _measured_on(estimate: Estimate) -> str:
    few = images_if_few(estimate)
    about = f" about {few}" if few else ""
    return f"{estimate.questions} question{'s' if estimate.questions > 1 else ''}{about}"
