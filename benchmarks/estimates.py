"""Means, ratios, shares and differences with 95% intervals; questions about one image together."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from .metrics.intervals import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Interval,
    cluster_numbers,
    difference_interval,
    share_interval,
)

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured number and its 95% interval.

    Attributes:
        value: The number; None if there was nothing to measure.
        low: Lower end; None if there is no interval.
        high: Upper end.
        questions: How many questions it was measured on.
        clusters: How many images (or sets of them) those are about; None if it is not known.
    """

    value: float | None
    low: float | None
    high: float | None
    questions: int
    clusters: int | None = None


def share(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Estimate:
    """A mean of values from 0 to 1, as of right answers, with Wilson's interval.

    Args:
        values: One a question; False and True are 0 and 1.
        clusters: What counts together: each question's image, for example. None for each
            question alone.
    """
    return _bounded(values, clusters, share_interval([float(one) for one in values], clusters))


def paired_difference(
    gaps: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """A mean of differences from -1 to 1 on the same questions, with Tango's interval.

    Args:
        gaps: One a question.
        clusters: As for `share`.
    """
    return _bounded(gaps, clusters, difference_interval(gaps, clusters))


def mean(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Estimate:
    """The mean of values without bounds, as of tokens or seconds, with a bootstrap.

    Args:
        values: One a question.
        clusters: As for `share`.
    """
    return ratio(values, [1.0] * len(values), clusters)


def ratio(
    above: Sequence[float], below: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """The ratio of two sums over the same questions, which are drawn in pairs.

    The interval is the expanded percentile bootstrap, which is as wide as Student's t where there
    are few clusters (Hesterberg 2015, The American Statistician 69). If it has no width, the
    questions say nothing of how much the figure varies, and there is none.

    Args:
        above: One a question.
        below: One a question, in the same order.
        clusters: As for `share`.
    """
    import numpy as np

    count = len(above)
    if count == 0 or not sum(below):
        return Estimate(None, None, None, count)
    value = sum(above) / sum(below)
    parts = _cluster_sums([above, below], range(count) if clusters is None else clusters)
    if len(parts) < 2:
        return Estimate(value, None, None, count, len(parts))
    rng = np.random.default_rng(SEED)
    drawn: list[Any] = []
    for _ in range(RESAMPLES // _BATCH):
        chosen = parts[rng.integers(len(parts), size=(_BATCH, len(parts)))].sum(axis=1)
        chosen = chosen[chosen[:, 1] != 0]
        drawn.append(chosen[:, 0] / chosen[:, 1])
    tail = _expanded_tail(len(parts))
    low, high = map(float, np.quantile(np.concatenate(drawn), (tail, 1 - tail)))
    if math.isclose(low, high, rel_tol=1e-9):
        return Estimate(value, None, None, count, len(parts))
    return Estimate(value, low, high, count, len(parts))


def quantile(values: Sequence[float], at: float) -> float | None:
    """The value below which a share of the values lies, interpolated; None of no values."""
    import numpy as np

    return float(np.quantile(values, at)) if len(values) else None


def _bounded(
    values: Sequence[float], clusters: Sequence[Hashable] | None, interval: Interval
) -> Estimate:
    count = len(values)
    apart = count if clusters is None else len(set(clusters))
    return Estimate(sum(values) / count if count else None, *interval, count, apart)


def _expanded_tail(clusters: int) -> float:
    """What to cut off a bootstrap of so many clusters at each end."""
    from scipy.stats import t

    reach = float(t.ppf((1 + CONFIDENCE) / 2, clusters - 1))
    return NormalDist().cdf(-math.sqrt(clusters / (clusters - 1)) * reach)


def _cluster_sums(columns: Sequence[Sequence[float]], clusters: Sequence[Hashable]) -> Any:
    """An array of shape (clusters, columns): each column's sum over each cluster."""
    import numpy as np

    places = cluster_numbers(clusters)
    sums = np.zeros((max(places) + 1, len(columns)))
    np.add.at(sums, places, np.asarray(columns, dtype=float).T)
    return sums
