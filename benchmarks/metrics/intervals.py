"""95% confidence intervals of shares and of paired differences, also of few or clustered questions.

Questions about one picture are right or wrong together, so they count for fewer than they are. How
many independent ones they are worth is the effective sample size (Kish 1965; Korn and Graubard
1998, Survey Methodology 24), with which the score intervals of proportions hold their level where
bootstraps of few clusters do not (Dean and Pagano 2015, Journal of Survey Statistics and
Methodology 3; on evaluations of language models arXiv 2411.00640 and 2503.01747).
"""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 0

Interval = tuple[float | None, float | None]

_TAIL = (1 - CONFIDENCE) / 2
_Z = NormalDist().inv_cdf(1 - _TAIL)
_NOTHING = 1e-9


def wilson(hits: float, total: float) -> Interval:
    """Wilson's score interval of a proportion.

    Args:
        hits: How often it happened.
        total: Out of how many, an effective number perhaps; without any there is no interval.
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


def paired_score(gains: float, losses: float, total: float) -> Interval:
    """Tango's score interval of the difference of two proportions on the same questions.

    It has a width where no question tells the two apart, as Wilson's has where nothing happened
    (Tango 1998, Statistics in Medicine 17; Newcombe 1998 compares it with others).

    Args:
        gains: How many questions only the first got right.
        losses: How many only the second got right.
        total: Out of how many, an effective number perhaps; without any there is no interval.
    """
    from scipy.optimize import brentq

    if total <= 0:
        return None, None

    def distance(gap: float, sign: int) -> float:
        """How far the difference lies from this one, in standard errors, less the limit."""
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


def share_interval(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Interval:
    """Interval of a mean of values from 0 to 1: Wilson's, with the effective sample size.

    Args:
        values: One a question. Where all are 0 or 1 it is a proportion.
        clusters: What each question belongs to; None for each alone.
    """
    if not values:
        return None, None
    share = sum(values) / len(values)
    size = effective_size(values, share * (1 - share), clusters)
    return wilson(share * size, size)


def difference_interval(
    gaps: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Interval:
    """Interval of a mean of paired differences: Tango's, with the effective sample size.

    Args:
        gaps: One a question, from -1 to 1.
        clusters: What each question belongs to; None for each alone.
    """
    if not gaps:
        return None, None
    gain = sum(gap for gap in gaps if gap > 0) / len(gaps)
    loss = -sum(gap for gap in gaps if gap < 0) / len(gaps)
    size = effective_size(gaps, gain + loss - (gain - loss) ** 2, clusters)
    return paired_score(gain * size, loss * size, size)


def effective_size(
    values: Sequence[float],
    largest_variance: float,
    clusters: Sequence[Hashable] | None = None,
) -> float:
    """How many independent questions, each right or wrong, tell as much as these do.

    It is at most their number (values between right and wrong can tell more), and at least what
    is left if all questions of a cluster go together. In between the design effect decides, with
    Student's t for the number of clusters that it is estimated from. Where all values are the
    same nothing can be estimated, and the least is taken.

    Args:
        values: One a question, at least one.
        largest_variance: Variance that values at the ends of their range would have at this mean.
        clusters: What each question belongs to; None for each alone.
    """
    import numpy as np
    from scipy.stats import t

    count = len(values)
    residuals = np.asarray(values, dtype=float) - sum(values) / count
    places = cluster_numbers(range(count) if clusters is None else clusters)
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


def cluster_numbers(clusters: Sequence[Hashable]) -> list[int]:
    """Each question's cluster as a number from 0, in the order in which they appear."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(one, len(numbers)) for one in clusters]


def f1_interval(hits: int, false_alarms: int, misses: int) -> Interval:
    """Interval of F1, by Wilson's of the share of hits among all three.

    F1 is 2 p / (1 + p) of that share p, so the ends carry over; unlike a bootstrap's they do not
    fall together where there is no hit, or nothing else (arXiv 2309.14621).
    """
    return _as_f1(wilson(hits, hits + false_alarms + misses))


def f1_share_interval(hits: Sequence[bool], clusters: Sequence[Hashable]) -> Interval:
    """The same with questions that belong together.

    Args:
        hits: Of every hit, false alarm and miss, whether it is a hit.
        clusters: What each of them belongs to.
    """
    return _as_f1(share_interval([float(hit) for hit in hits], clusters))


def _as_f1(share: Interval) -> Interval:
    low, high = share
    if low is None or high is None:
        return None, None
    return 2 * low / (1 + low), 2 * high / (1 + high)
