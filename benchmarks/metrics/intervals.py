"""95% confidence intervals; a bootstrap of the same figures always gives the same interval."""

from collections.abc import Sequence

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


def f1_interval(hits: int, false_alarms: int, misses: int) -> Interval:
    """Interval of F1, by Wilson's of the share of hits among all three.

    F1 is 2 p / (1 + p) of that share p, so the ends carry over; unlike a bootstrap's they do not
    fall together where there is no hit, or nothing else (arXiv 2309.14621).
    """
    low, high = wilson(hits, hits + false_alarms + misses)
    if low is None or high is None:
        return None, None
    return 2 * low / (1 + low), 2 * high / (1 + high)


def bootstrap_mean(values: Sequence[float]) -> Interval:
    """Percentile bootstrap of a mean, resampled by question.

    Args:
        values: One a question. Where all are 0 or 1 it is a proportion, and the interval is
            Wilson's; where all are the same otherwise, there is none.
    """
    import numpy as np
    from scipy.stats import bootstrap

    if set(values) <= {0.0, 1.0}:
        return wilson(round(sum(values)), len(values))
    if len(set(values)) < 2:
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
