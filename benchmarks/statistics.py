"""Every estimate with its 95% interval: proportions, paired differences, means, ratios, F1.

Questions about one image are right or wrong together, so they count for fewer than they are. How
many independent ones they are worth is the effective sample size (Kish 1965; Korn and Graubard
1998, Survey Methodology 24), with which the score intervals of proportions keep their level where
bootstraps of few clusters do not (Dean and Pagano 2015, Journal of Survey Statistics and
Methodology 3; on evaluations of language models arXiv 2411.00640 and 2503.01747). Means and ratios
without bounds (tokens, seconds) take a bootstrap of whole clusters.

Everywhere `clusters` names what each question belongs to, its image for example; None stands for
each question alone.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 0

Interval = tuple[float | None, float | None]
Clusters = Sequence[Hashable] | None

_TAIL = (1 - CONFIDENCE) / 2
_Z = NormalDist().inv_cdf(1 - _TAIL)
_NOTHING = 1e-9
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured number and its 95% interval.

    Attributes:
        value: The number; None if there was nothing to measure.
        low: Lower end; None if there is no interval.
        high: Upper end.
        questions: Number of questions that it was measured on.
        clusters: Number of images (or sets of them) that those are about; None if unknown.
    """

    value: float | None
    low: float | None
    high: float | None
    questions: int
    clusters: int | None = None


def proportion(values: Sequence[float], clusters: Clusters = None) -> Estimate:
    """Estimate a mean of values from 0 to 1, such as of right answers.

    The interval is Wilson's with the effective sample size.

    Args:
        values: One per question; False and True are 0 and 1.
        clusters: As in the module's text.
    """
    if not values:
        return Estimate(None, None, None, 0, 0)
    share = sum(values) / len(values)
    size = effective_size(values, share * (1 - share), clusters)
    return _bounded(values, clusters, wilson(share * size, size))


def paired_difference(differences: Sequence[float], clusters: Clusters = None) -> Estimate:
    """Estimate a mean difference of two strategies on the same questions.

    The interval is Tango's with the effective sample size.

    Args:
        differences: One per question, from -1 to 1.
        clusters: As in the module's text.
    """
    if not differences:
        return Estimate(None, None, None, 0, 0)
    count = len(differences)
    gain = sum(gap for gap in differences if gap > 0) / count
    loss = -sum(gap for gap in differences if gap < 0) / count
    size = effective_size(differences, gain + loss - (gain - loss) ** 2, clusters)
    return _bounded(differences, clusters, tango(gain * size, loss * size, size))


def f1(hits: Sequence[bool], clusters: Clusters = None) -> Estimate:
    """Estimate F1.

    Args:
        hits: Of each hit, false alarm and miss, whether it is a hit.
        clusters: As in the module's text.
    """
    found = proportion([float(hit) for hit in hits], clusters)
    value = None if found.value is None else 2 * found.value / (1 + found.value)
    interval = f1_interval((found.low, found.high))
    return Estimate(value, *interval, found.questions, found.clusters)


def mean(values: Sequence[float], clusters: Clusters = None) -> Estimate:
    """Estimate the mean of values without bounds, such as tokens or seconds, by the bootstrap.

    Args:
        values: One per question.
        clusters: As in the module's text.
    """
    return ratio(values, [1.0] * len(values), clusters)


def ratio(above: Sequence[float], below: Sequence[float], clusters: Clusters = None) -> Estimate:
    """Estimate the ratio of two sums over the same questions by the bootstrap.

    Args:
        above: One per question.
        below: One per question, in the same order.
        clusters: As in the module's text.
    """
    count = len(above)
    if count == 0 or not sum(below):
        return Estimate(None, None, None, count)
    parts = _cluster_sums([above, below], range(count) if clusters is None else clusters)

    def ratios(drawn: Any) -> Any:
        sums = drawn.sum(axis=1)
        sums = sums[sums[:, 1] != 0]
        return sums[:, 0] / sums[:, 1]

    return Estimate(sum(above) / sum(below), *bootstrap(parts, ratios), count, len(parts))


def median(values: Sequence[float]) -> Estimate:
    """Estimate the median of values, one per question, by the bootstrap."""
    import numpy as np

    if not values:
        return Estimate(None, None, None, 0, 0)
    low, high = bootstrap(np.asarray(values, dtype=float), lambda drawn: np.median(drawn, axis=1))
    return Estimate(float(np.median(values)), low, high, len(values), len(values))


def quantile(values: Sequence[float], at: float) -> float | None:
    """Return the value below which a share of the values lies, interpolated; None of no values."""
    import numpy as np

    return float(np.quantile(values, at)) if len(values) else None


def wilson(hits: float, total: float) -> Interval:
    """Return Wilson's score interval of a proportion.

    Args:
        hits: How often it happened.
        total: Out of how many, perhaps an effective number; without any there is no interval.
    """
    if total <= 0:
        return None, None
    share, weight = hits / total, _Z**2 / total
    middle = (share + weight / 2) / (1 + weight)
    reach = math.sqrt(weight * share * (1 - share) + weight**2 / 4) / (1 + weight)
    # The ends are exact where nothing happened, or everything did.
    low = 0.0 if share <= 0 else max(0.0, middle - reach)
    high = 1.0 if share >= 1 else min(1.0, middle + reach)
    return low, high


def tango(gains: float, losses: float, total: float) -> Interval:
    """Return Tango's score interval of the difference of two proportions on the same questions.

    It has a width where no question tells the two apart, as Wilson's has where nothing happened
    (Tango 1998, Statistics in Medicine 17; Newcombe 1998 compares it with others).

    Args:
        gains: Number of questions that only the first got right.
        losses: Number that only the second got right.
        total: Out of how many, perhaps an effective number; without any there is no interval.
    """
    from scipy.optimize import brentq

    if total <= 0:
        return None, None

    def distance(gap: float, sign: int) -> float:
        """Return how far the difference lies from this one, in standard errors, less the limit."""
        linear = (2 * total - gains + losses) * gap - gains - losses
        constant = -losses * gap * (1 - gap)
        root = math.sqrt(max(0.0, linear**2 - 8 * total * constant))
        chance = (root - linear) / (4 * total)
        variance = total * (2 * chance + gap * (1 - gap))
        excess = gains - losses - total * gap
        return excess - sign * _Z * math.sqrt(max(0.0, variance))

    # What was seen is itself no standard error away, and none of the ends.
    seen = (gains - losses) / total
    below, above = seen - _NOTHING, seen + _NOTHING
    low = -1.0 if below <= -1 else float(brentq(distance, -1.0, below, args=(1,)))
    high = 1.0 if above >= 1 else float(brentq(distance, above, 1.0, args=(-1,)))
    return low, high


def f1_interval(hit_share: Interval) -> Interval:
    """Return the interval of F1 by that of the share p of hits among hits, false alarms and misses.

    F1 is 2 p / (1 + p), so the ends carry over; unlike a bootstrap's they do not fall together
    where there is no hit, or nothing else (arXiv 2309.14621).
    """
    low, high = hit_share
    if low is None or high is None:
        return None, None
    return 2 * low / (1 + low), 2 * high / (1 + high)


def effective_size(
    values: Sequence[float], largest_variance: float, clusters: Clusters = None
) -> float:
    """Return how many independent questions, each right or wrong, tell as much as these do.

    It is at most their number (values between right and wrong can tell more), and at least what
    is left if all questions of a cluster go together. In between the design effect decides, with
    Student's t for the number of clusters that it is estimated from. Where all values are the
    same nothing can be estimated, and the least is taken.

    Args:
        values: One per question, at least one.
        largest_variance: Variance that values at the ends of their range would have at this mean.
        clusters: As in the module's text.
    """
    import numpy as np
    from scipy.stats import t

    count = len(values)
    residuals = np.asarray(values, dtype=float) - sum(values) / count
    places = _cluster_numbers(range(count) if clusters is None else clusters)
    sizes, sums = np.bincount(places), np.bincount(places, residuals)
    least = count**2 / float((sizes**2).sum())
    variance = float((residuals**2).mean())
    if len(sizes) < 2 or variance < _NOTHING:
        return least
    effect = float((sums**2).sum()) * len(sizes) / (len(sizes) - 1) / (count * variance)
    widening = float(t.ppf(1 - _TAIL, len(sizes) - 1)) / _Z
    counted = count / max(effect, 1.0) / widening**2
    gain = largest_variance / (variance * count / (count - 1)) / widening**2
    return min(max(counted, least), count) * max(gain, 1.0)


def _bounded(values: Sequence[float], clusters: Clusters, interval: Interval) -> Estimate:
    count = len(values)
    apart = count if clusters is None else len(set(clusters))
    return Estimate(sum(values) / count, *interval, count, apart)


def bootstrap(parts: Any, statistic: Callable[[Any], Any]) -> Interval:
    """Return the expanded percentile interval of a statistic over clusters drawn with replacement.

    It is as wide as Student's t where there are few clusters (Hesterberg 2015, The American
    Statistician 69). If it has no width, the questions say nothing of how much the figure varies,
    and there is none.

    Args:
        parts: An array whose first axis is the clusters.
        statistic: From drawn parts of shape (draws, clusters, ...) to a value per draw.
    """
    import numpy as np
    from scipy.stats import t

    count = len(parts)
    if count < 2:
        return None, None
    rng = np.random.default_rng(SEED)
    values = np.concatenate(
        [
            statistic(parts[rng.integers(count, size=(_BATCH, count))])
            for _ in range(RESAMPLES // _BATCH)
        ]
    )
    reach = float(t.ppf(1 - _TAIL, count - 1))
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * reach)
    low, high = map(float, np.quantile(values, (tail, 1 - tail)))
    return (None, None) if math.isclose(low, high, rel_tol=1e-9) else (low, high)


def _cluster_numbers(clusters: Sequence[Hashable]) -> list[int]:
    """Return each question's cluster as a number from 0, in the order in which they appear."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(one, len(numbers)) for one in clusters]


def _cluster_sums(columns: Sequence[Sequence[float]], clusters: Sequence[Hashable]) -> Any:
    """Return an array of shape (clusters, columns): each column's sum over each cluster."""
    import numpy as np

    places = _cluster_numbers(clusters)
    sums = np.zeros((max(places) + 1, len(columns)))
    np.add.at(sums, places, np.asarray(columns, dtype=float).T)
    return sums
