"""Where the cascade pays: break-even points of a pair on a workload."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log

from .latency import Latencies
from .totals import Settings, priced, total_seconds
from .workload import Drafting, Route, Workload

REFERENCES = ("large_reason", "speculative")
"""Ways to the large model's own reasoning; MAI is held against the faster one."""

_STEPS = 80
_A_DECADE = 40
_LARGEST = 1e6


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where MAI takes as long as the large model's own reasoning.

    None where it never does and is faster; 0 where it is slower from the start.

    Attributes:
        against: The strategy that MAI is held against.
        disputed_now: Share of the questions that the direct answers do not agree on.
        disputed: Share from which on MAI is slower.
        reasoning_now: Tokens of the small model's reasoning on disputed questions.
        reasoning: Tokens from which on MAI is slower.
        speed_ratio_now: Tokens a second of the small model over those of the large one.
        speed_ratio: The ratio nearest to the present one below which MAI is slower than the faster
            one of `REFERENCES` is then; infinite where it is slower at any.
        accept_rate_now: Share of the small model's tokens that the large one keeps in speculative
            decoding; None if unknown.
        accept_rate: Share from which on speculative decoding is faster than the large model alone;
            None if it never is.
    """

    against: str
    disputed_now: float
    disputed: float | None
    reasoning_now: float
    reasoning: float | None
    speed_ratio_now: float
    speed_ratio: float | None
    accept_rate_now: float | None
    accept_rate: float | None


def break_even(
    workload: Workload,
    latencies: Latencies,
    settings: Settings | None = None,
) -> BreakEven:
    """Find the break-even points of a pair on a workload, each with all else as it is.

    Args:
        workload: Routes and tokens.
        latencies: The pair's component latencies.
        settings: How calls are run, None for the paper's way.
    """
    times = {
        name: total_seconds(name, workload, latencies, settings)
        for name in priced(REFERENCES, workload)
    }
    against = min(times, key=lambda name: times[name])
    limit = times[against]
    length = _disputed_length(workload)
    small, large = latencies["small"], latencies["large"]

    def at_share(share: float) -> float:
        scaled = _with_disputed(workload, share)
        each = total_seconds("mai", scaled, latencies, settings) / scaled.questions
        return each * workload.questions

    def at_length(tokens: float) -> float:
        longer = replace(workload, reason_tokens={"reasoned": tokens, "transferred": tokens})
        return total_seconds("mai", longer, latencies, settings)

    def lost_at_ratio(ratio: float) -> float:
        """Seconds that MAI takes more; the small model is also the draft of what it is held to."""
        slower = replace(small, seconds_per_token=large.seconds_per_token / ratio)
        changed: Latencies = {"small": slower, "large": large}
        own = min(total_seconds(name, workload, changed, settings) for name in times)
        return total_seconds("mai", workload, changed, settings) - own

    now = large.seconds_per_token / small.seconds_per_token
    drafting = workload.drafting
    return BreakEven(
        against=against,
        disputed_now=workload.disputed / workload.questions,
        disputed=_crossing(at_share, limit, 1.0) if workload.disputed else None,
        reasoning_now=length,
        reasoning=_crossing(at_length, limit, _LARGEST) if workload.disputed else None,
        speed_ratio_now=now,
        speed_ratio=_least_ratio(lost_at_ratio, now),
        accept_rate_now=drafting.accept_rate if drafting else None,
        accept_rate=_enough_accepted(workload, latencies, settings),
    )


def _enough_accepted(
    workload: Workload, latencies: Latencies, settings: Settings | None
) -> float | None:
    """The accept rate from which on a draft saves the large model's reasoning time."""
    drafting = workload.drafting or Drafting(1.0)

    def at_refused(share: float) -> float:
        tried = replace(workload, drafting=replace(drafting, accept_rate=1 - share))
        return total_seconds("speculative", tried, latencies, settings)

    alone = total_seconds("large_reason", workload, latencies, settings)
    refused = _crossing(at_refused, alone, 1.0)
    if refused is None:
        return 0.0  # whatever is kept
    return 1 - refused if refused else None


def _disputed_length(workload: Workload) -> float:
    if not workload.disputed:
        return workload.reasoning(None)
    disputed: tuple[Route, ...] = ("reasoned", "transferred")
    written = sum(workload.count(route) * workload.reasoning(route) for route in disputed)
    return written / workload.disputed


def _with_disputed(workload: Workload, share: float) -> Workload:
    """The workload with another share of disputed questions, as a set large enough for it."""
    scale = 1_000_000
    disputed = round(share * scale)
    transferred = round(disputed * workload.transferred / workload.disputed)
    return replace(
        workload,
        questions=scale,
        routes={"reasoned": disputed - transferred, "transferred": transferred},
    )


def _least_ratio(lost: Callable[[float], float], now: float) -> float | None:
    """Where MAI stops to be slower as the small model gets faster, nearest to the present ratio.

    What it is held to may slow down with the small model, so this may happen more than once.
    """
    ratios = [10 ** (place / _A_DECADE) for place in range(-3 * _A_DECADE, 3 * _A_DECADE + 1)]
    crossed = [(slow, fast) for slow, fast in pairwise(ratios) if lost(slow) > 0 >= lost(fast)]
    if not crossed:
        return inf if lost(now) > 0 else None
    low, high = min(crossed, key=lambda pair: abs(log(pair[0] / now)))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if lost(middle) > 0 else (low, middle)
    return high


def _crossing(seconds: Callable[[float], float], limit: float, largest: float) -> float | None:
    """Where a growing function reaches the limit, by bisection.

    Returns:
        0 if it is above from the start, None if not below `largest`.
    """
    low, high = 0.0, largest
    if seconds(low + 1e-9) > limit:
        return 0.0
    if seconds(high) < limit:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) < limit else (low, middle)
    return high
