"""Whether the cascade pays: its routes, what transfer repaired and spoiled, accuracy and time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from ...nodes.state import Route
from ..estimates import Estimate, paired_difference, ratio, share
from .evaluated import Evaluated

ROUTES: tuple[Route, ...] = get_args(Route)
REFERENCE = "large_reason"

POINTS_LOST = 0.01
"""A cascade that may lose more than this against the large model's reasoning is called worse."""


@dataclass(frozen=True, slots=True)
class RouteFigures:
    """One route of the cascade.

    Attributes:
        route: Its name.
        share: Of all questions.
        accuracy: Of the answers that came this way.
    """

    route: Route
    share: Estimate
    accuracy: Estimate


@dataclass(frozen=True, slots=True)
class Cascade:
    """What the results say about the cascade.

    Attributes:
        routes: The routes, in order.
        agreement_wrong: How often direct answers that agree are wrong.
        reasoned_wrong: The same of a reasoned answer that agrees with the large model's direct one.
        help: Of the transfers, how many turned a wrong direct answer of the large model right.
        harm: Of the transfers, how many turned a right one wrong.
        differences: Accuracy of the cascade minus that of another strategy, paired by question.
        times: Seconds of the cascade over those of another strategy, paired by question.
    """

    routes: tuple[RouteFigures, ...]
    agreement_wrong: Estimate
    reasoned_wrong: Estimate
    help: Estimate
    harm: Estimate
    differences: dict[str, Estimate]
    times: dict[str, Estimate]


def cascade(run: Evaluated, protocol: str = "typed") -> Cascade | None:
    """All figures of the cascade; None if it was not evaluated.

    Args:
        run: The evaluation.
        protocol: Whose reading of the outputs counts.
    """
    results, graded = run.results.get("mai"), run.grades("mai", protocol)
    if not results:
        return None
    by_route: dict[Route, list[str]] = {route: [] for route in ROUTES}
    for one, result in results.items():
        if result["route"] and one in graded:
            by_route[result["route"]].append(one)
    asked = [one for ids in by_route.values() for one in ids]
    routes = tuple(
        RouteFigures(
            route,
            share([results[one]["route"] == route for one in asked], run.clusters(asked)),
            share([graded[one] for one in ids], run.clusters(ids)),
        )
        for route, ids in by_route.items()
    )
    helped, harmed = _transfers(run, by_route["transferred"], protocol)

    def wrong(route: Route) -> Estimate:
        ids = by_route[route]
        return share([graded[one] < 1 for one in ids], run.clusters(ids))

    others = [name for name in run.results if name != "mai"]
    return Cascade(
        routes=routes,
        agreement_wrong=wrong("direct"),
        reasoned_wrong=wrong("reasoned"),
        help=helped,
        harm=harmed,
        differences={name: difference(run, "mai", name, protocol) for name in others},
        times={name: time_ratio(run, "mai", name) for name in run.timed if name != "mai"},
    )


def difference(run: Evaluated, first: str, second: str, protocol: str = "typed") -> Estimate:
    """Accuracy of one strategy minus another's, over the questions that both answered."""
    one, two = run.grades(first, protocol), run.grades(second, protocol)
    ids = [name for name in one if name in two]
    return paired_difference([one[name] - two[name] for name in ids], run.clusters(ids))


def time_ratio(run: Evaluated, first: str, second: str) -> Estimate:
    """Seconds of one strategy over another's, over evaluated questions both were timed on."""
    one, two = run.timed.get(first, {}), run.timed.get(second, {})
    ids = [name for name in one if name in two and name in run.questions]
    return ratio([one[name] for name in ids], [two[name] for name in ids], run.clusters(ids))


def verdict(found: Cascade) -> str:
    """One or two sentences: does the cascade pay, against the large model's own reasoning?"""
    gap = found.differences.get(REFERENCE)
    if gap is None or gap.value is None:
        return (
            f"Whether the cascade pays is open: {REFERENCE} was not evaluated beside it "
            f"(--strategy {REFERENCE})."
        )
    accuracy = (
        f"Against {REFERENCE}, the cascade's accuracy differs by {_points(gap)} on "
        f"{gap.questions} questions"
    )
    time = found.times.get(REFERENCE)
    if time is None or time.value is None:
        return f"{accuracy}. What it saves is open: time both with --timed."
    low, high = _bounds(time)
    interval = "" if time.low is None else f" ({low:.2f} to {high:.2f})"
    pace = f"it takes {time.value:.2f}{interval} of the time"
    return f"{accuracy}, and {pace}. {_judgement(gap, time)}"


def _judgement(gap: Estimate, time: Estimate) -> str:
    (low, high), (quick, slow) = _bounds(gap), _bounds(time)
    if quick >= 1:
        return "It does not pay: it is no faster."
    if slow >= 1:
        return "Whether it is faster, so few questions do not tell."
    if low >= -POINTS_LOST:
        return "It pays: faster, and at most 1 point behind."
    if high < 0:
        return "It is faster and less accurate: it pays where that loss is worth the time."
    return "It is faster; whether it is as accurate, so few questions do not tell."


def _transfers(run: Evaluated, ids: Sequence[str], protocol: str) -> tuple[Estimate, Estimate]:
    """How many of the transfers helped, and how many harmed."""
    before = run.grade_texts(
        {one: call["text"] for one, call in run.calls("mai", "large", "direct").items()}, protocol
    )
    after = run.grades("mai", protocol)
    both = [one for one in ids if one in before]
    clusters = run.clusters(both)
    return (
        share([before[one] < after[one] for one in both], clusters),
        share([before[one] > after[one] for one in both], clusters),
    )


def _bounds(estimate: Estimate) -> tuple[float, float]:
    value = estimate.value or 0.0
    low = value if estimate.low is None else estimate.low
    high = value if estimate.high is None else estimate.high
    return low, high


def _points(gap: Estimate) -> str:
    low, high = _bounds(gap)
    interval = "" if gap.low is None else f" ({100 * low:+.1f} to {100 * high:+.1f})"
    return f"{100 * (gap.value or 0.0):+.1f} points{interval}"
