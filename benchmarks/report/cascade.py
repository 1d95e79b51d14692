"""The cascade in figures: its routes, what transfer repaired and spoiled, accuracy and time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from ...nodes.state import Route
from ..estimates import Estimate, paired_difference, ratio, share
from .evaluated import Evaluated

ROUTES: tuple[Route, ...] = get_args(Route)


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
