"""Means, ratios and shares with 95% intervals; questions about one image are drawn together."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .metrics.intervals import CONFIDENCE, RESAMPLES, SEED, wilson

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured number and its 95% interval.

    Attributes:
        value: The number; None if there was nothing to measure.
        low: Lower end; None if there is no interval.
        high: Upper end.
        questions: How many questions it was measured on.
    """

    value: float | None
    low: float | None
    high: float | None
    questions: int


def mean(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Estimate:
    """The mean, with a percentile bootstrap.

    For a paired difference of two means, give the differences.

    Args:
        values: One a question.
        clusters: What is drawn together: each question's image, for example. None for each
            question alone.
    """
    return ratio(values, [1.0] * len(values), clusters)


def ratio(
    above: Sequence[float], below: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """The ratio of two sums over the same questions, which are drawn in pairs.

    Args:
        above: One a question.
        below: One a question, in the same order.
        clusters: As for `mean`.
    """
    import numpy as np

    count = len(above)
    if count == 0 or not sum(below):
        return Estimate(None, None, None, count)
    value = sum(above) / sum(below)
    parts = _cluster_sums([above, below], range(count) if clusters is None else clusters)
    if len(parts) < 2:
        return Estimate(value, None, None, count)
    rng = np.random.default_rng(SEED)
    drawn: list[Any] = []
    for _ in range(RESAMPLES // _BATCH):
        chosen = parts[rng.integers(len(parts), size=(_BATCH, len(parts)))].sum(axis=1)
        chosen = chosen[chosen[:, 1] != 0]
        drawn.append(chosen[:, 0] / chosen[:, 1])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(drawn), (tail, 1 - tail))
    return Estimate(value, float(low), float(high), count)


def share(hits: Sequence[bool]) -> Estimate:
    """A share of questions, with Wilson's interval."""
    count = len(hits)
    low, high = wilson(sum(hits), count)
    return Estimate(sum(hits) / count if count else None, low, high, count)


def quantile(values: Sequence[float], at: float) -> float | None:
    """The value below which a share of the values lies, interpolated; None of no values."""
    import numpy as np

    return float(np.quantile(values, at)) if len(values) else None


def _cluster_sums(columns: Sequence[Sequence[float]], clusters: Sequence[Hashable]) -> Any:
    """An array of shape (clusters, columns): each column's sum over each cluster."""
    import numpy as np

    place: dict[Hashable, int] = {}
    for cluster in clusters:
        place.setdefault(cluster, len(place))
    sums = np.zeros((len(place), len(columns)))
    np.add.at(sums, [place[cluster] for cluster in clusters], np.asarray(columns, dtype=float).T)
    return sums
