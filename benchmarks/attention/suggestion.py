"""Which layer to select tokens by: pure decisions on what each layer's answers were worth."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..estimates import Estimate, mean, paired_difference, share
from ..metrics.intervals import SEED

RESAMPLES = 500
"""Bootstrap resamples of the questions."""

SURE = 0.95
"""A layer that is picked in so many of the resamples is told apart from the others."""

Advice = Literal["use the layer", "use full transfer", "measure more"]


@dataclass(frozen=True, slots=True)
class LayerOutcomes:
    """Sparse transfer at one layer, question by question.

    Attributes:
        worth: What each answer is worth, from 0 to 1.
        tokens: How many tokens were handed over.
    """

    worth: tuple[float, ...]
    tokens: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Answers to the same questions after sparse transfer at several layers, and after full one.

    Attributes:
        layers: By layer, at least one.
        full: After full transfer, as the `worth` of a layer.
        whole_tokens: How many tokens each whole reasoning has.
        clusters: What counts together: each question's image.
    """

    layers: Mapping[int, LayerOutcomes]
    full: tuple[float, ...]
    whole_tokens: tuple[float, ...]
    clusters: tuple[Hashable, ...]

    def drawn(self, places: Sequence[int], clusters: Sequence[Hashable]) -> "Outcomes":
        """The same of some questions, a question as often as it is named."""

        def take(values: Sequence[float]) -> tuple[float, ...]:
            return tuple(values[place] for place in places)

        layers = {
            layer: LayerOutcomes(take(one.worth), take(one.tokens))
            for layer, one in self.layers.items()
        }
        return Outcomes(layers, take(self.full), take(self.whole_tokens), tuple(clusters))


@dataclass(frozen=True, slots=True)
class LayerVerdict:
    """What is known of a layer.

    Attributes:
        layer: 1 for the first.
        tokens: Mean tokens handed over.
        worth: Mean worth of the answers.
        to_best: Paired difference to the layer whose answers are worth most; None of that itself.
        to_full: Paired difference to full transfer.
        as_good: Whether `to_best` is shown to be no worse than the margin.
        picked: In which share of the resamples this layer is picked.
    """

    layer: int
    tokens: Estimate
    worth: Estimate
    to_best: Estimate | None
    to_full: Estimate
    as_good: bool
    picked: float


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A layer, and how sure it is.

    Attributes:
        layer: The layer that is picked.
        runner_up: The one that would be picked without it; None if there is no other.
        to_runner_up: Paired difference in worth, picked less runner-up.
        margin: How much worse a layer may be and still do as well.
        advice: What to do.
        layers: What is known of each.
        full: Mean worth after full transfer.
        whole_tokens: Mean tokens of the whole reasonings.
    """

    layer: int
    runner_up: int | None
    to_runner_up: Estimate | None
    margin: float
    advice: Advice
    layers: tuple[LayerVerdict, ...]
    full: Estimate
    whole_tokens: Estimate

    @property
    def picked(self) -> LayerVerdict:
        """What is known of the layer that is picked."""
        return next(one for one in self.layers if one.layer == self.layer)

    @property
    def is_sure(self) -> bool:
        """Whether the sample tells the layer apart from the others.

        Of few pictures all resamples are alike, so what they pick is not enough: it must be shown
        of every layer that it does as well as the best one, or that it is worse.
        """
        return self.picked.picked >= SURE and not self.undecided

    @property
    def undecided(self) -> list[int]:
        """The layers that are shown neither to do as well as the best one nor to be worse."""
        return [
            one.layer
            for one in self.layers
            if not one.as_good
            and one.to_best is not None
            and (one.to_best.high is None or one.to_best.high >= 0)
        ]


def best_layer(outcomes: Outcomes) -> int:
    """The layer whose answers are worth most; of equals the one with fewest tokens, the first."""
    return min(
        outcomes.layers,
        key=lambda layer: (
            -_mean(outcomes.layers[layer].worth),
            _mean(outcomes.layers[layer].tokens),
            layer,
        ),
    )


def layers_as_good(outcomes: Outcomes, margin: float) -> dict[int, Estimate | None]:
    """The layers that are shown to do as well as the best one, with their differences to it.

    A layer does as well if the 95% interval of its paired difference to the best one lies above
    minus the margin. That a difference is not significant would not do: on few questions none is,
    and the layer with the fewest tokens would win without any evidence.

    Args:
        outcomes: The answers.
        margin: From 0 to 1.

    Returns:
        The best layer, with None, and all others that do as well.
    """
    best = best_layer(outcomes)
    found: dict[int, Estimate | None] = {best: None}
    for layer in outcomes.layers:
        if layer != best:
            gap = _difference(outcomes, outcomes.layers[layer].worth, outcomes.layers[best].worth)
            if gap.low is not None and gap.low > -margin:
                found[layer] = gap
    return found


def pick_layer(outcomes: Outcomes, margin: float) -> int:
    """The layer with the fewest tokens among those that do as well as the best one.

    Args:
        outcomes: The answers.
        margin: From 0 to 1.
    """
    return min(
        layers_as_good(outcomes, margin),
        key=lambda layer: (_mean(outcomes.layers[layer].tokens), layer),
    )


def picked_shares(
    outcomes: Outcomes, margin: float, resamples: int = RESAMPLES
) -> dict[int, float]:
    """In which share of bootstrap resamples each layer is picked.

    Args:
        outcomes: The answers; whole clusters are drawn, with replacement.
        margin: From 0 to 1.
        resamples: How many.
    """
    import numpy as np

    places: dict[Hashable, list[int]] = {}
    for place, cluster in enumerate(outcomes.clusters):
        places.setdefault(cluster, []).append(place)
    groups = list(places.values())
    rng = np.random.default_rng(SEED)
    counts = dict.fromkeys(outcomes.layers, 0)
    for _ in range(resamples):
        numbers = rng.integers(len(groups), size=len(groups))
        # A cluster that is drawn twice is two clusters.
        drawn = [(place, draw) for draw, one in enumerate(numbers) for place in groups[one]]
        sample = outcomes.drawn([place for place, _ in drawn], [draw for _, draw in drawn])
        counts[pick_layer(sample, margin)] += 1
    return {layer: count / resamples for layer, count in counts.items()}


def suggest(outcomes: Outcomes, margin: float, resamples: int = RESAMPLES) -> Suggestion:
    """Pick a layer, and say how sure that is.

    Args:
        outcomes: The answers, to at least one question.
        margin: How much worse a layer may be and still do as well, from 0 to 1.
        resamples: Bootstrap resamples.
    """
    layer = pick_layer(outcomes, margin)
    shares = picked_shares(outcomes, margin, resamples)
    others = {one: found for one, found in outcomes.layers.items() if one != layer}
    runner_up, gap = None, None
    if others:
        rest = Outcomes(others, outcomes.full, outcomes.whole_tokens, outcomes.clusters)
        runner_up = pick_layer(rest, margin)
        gap = _difference(outcomes, outcomes.layers[layer].worth, others[runner_up].worth)
    verdicts = tuple(_verdict(outcomes, one, margin, shares[one]) for one in outcomes.layers)
    return Suggestion(
        layer=layer,
        runner_up=runner_up,
        to_runner_up=gap,
        margin=margin,
        advice=_advice(verdicts, layer, margin),
        layers=verdicts,
        full=share(outcomes.full, outcomes.clusters),
        whole_tokens=mean(outcomes.whole_tokens, outcomes.clusters),
    )


def _advice(verdicts: Sequence[LayerVerdict], layer: int, margin: float) -> Advice:
    """Full transfer if every layer is clearly worse; the layer if it is shown to do as well."""
    if all(one.to_full.high is not None and one.to_full.high < 0 for one in verdicts):
        return "use full transfer"
    (own,) = (one.to_full for one in verdicts if one.layer == layer)
    if own.high is not None and own.high < 0:
        return "use full transfer"
    return "use the layer" if own.low is not None and own.low > -margin else "measure more"


def _verdict(outcomes: Outcomes, layer: int, margin: float, picked: float) -> LayerVerdict:
    own, best = outcomes.layers[layer], best_layer(outcomes)
    to_best = None
    if layer != best:
        to_best = _difference(outcomes, own.worth, outcomes.layers[best].worth)
    return LayerVerdict(
        layer=layer,
        tokens=mean(own.tokens, outcomes.clusters),
        worth=share(own.worth, outcomes.clusters),
        to_best=to_best,
        to_full=_difference(outcomes, own.worth, outcomes.full),
        as_good=to_best is None or (to_best.low is not None and to_best.low > -margin),
        picked=picked,
    )


def _difference(outcomes: Outcomes, first: Sequence[float], second: Sequence[float]) -> Estimate:
    gaps = [one - other for one, other in zip(first, second, strict=True)]
    return paired_difference(gaps, outcomes.clusters)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
