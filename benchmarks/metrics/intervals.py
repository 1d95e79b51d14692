"""95% confidence intervals; a bootstrap of the same figures always gives the same interval."""

from collections.abc import Callable, Sequence
from typing import Any

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 0

Interval = tuple[float | None, float | None]


def wilson(hits: int, total: int) -> Interval:
    """Wilson's score interval of a proportion.

    Args:
        hits: How often it happened.
        total: Out of how many; without any there is no interval.
    """
    from scipy.stats import binomtest

    if not total:
        return None, None
    interval = binomtest(hits, total).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def bootstrap_mean(values: Sequence[float]) -> Interval:
    """Percentile bootstrap of a mean, resampled by question.

    Args:
        values: One a question; there is no interval for fewer than two.
    """
    import numpy as np
    from scipy.stats import bootstrap

    if len(values) < 2:
        return None, None
    result = bootstrap(
        (np.asarray(values, dtype=float),),
        np.mean,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="percentile",
        batch=100,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(result.low), float(result.high)


def bootstrap_counts(counts: Sequence[int], ratio: Callable[[Any], Any]) -> Interval:
    """Percentile bootstrap of a ratio of counts, resampled by question.

    Drawing questions anew changes nothing but how many fall into each class, so the counts are
    drawn (multinomial).

    Args:
        counts: Questions in each class, which exclude one another.
        ratio: From an array of counts, shape (classes, resamples), to one ratio a resample; NaN
            where it is undefined.
    """
    import numpy as np

    total = sum(counts)
    if total < 2:
        return None, None
    shares = np.asarray(counts, dtype=float) / total
    drawn = np.random.default_rng(SEED).multinomial(total, shares, size=RESAMPLES).T
    ratios = ratio(drawn)
    ratios = ratios[~np.isnan(ratios)]
    if not ratios.size:
        return None, None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, (tail, 1 - tail))
    return float(low), float(high)
