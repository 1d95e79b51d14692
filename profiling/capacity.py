"""How many engines a stream of questions needs."""

from math import ceil

from .engines import PREFILL_TOKENS
from .latency import Latencies, Role
from .serving import Serving
from .strategy_calls import PlannedCall, planned_calls
from .totals import decode_steps
from .workload import ROUTES, Workload

UTILIZATION = 0.8
"""Share of an engine's time that is planned for; the rest takes up bursts of arrivals."""


def engines_needed(
    strategy: str, workload: Workload, latencies: Latencies, rate: float, serving: Serving
) -> dict[Role, int]:
    """Return the engines of each kind that a rate needs, with full batches and a device each.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Routes and tokens.
        latencies: The pair's component latencies.
        rate: Questions per second.
        serving: Batch limit and prefix reuse.
    """
    needs = _needs(strategy, workload, latencies, rate, serving)
    return {role: ceil(need / UTILIZATION) for role, need in needs.items()}


def is_overloaded(
    strategy: str, workload: Workload, latencies: Latencies, serving: Serving
) -> bool:
    """Whether questions arrive faster than the engines answer them with full batches.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Routes and tokens.
        latencies: The pair's component latencies.
        serving: Arrivals and engines; without a rate nothing is overloaded.
    """
    if serving.rate is None:
        return False
    needs = _needs(strategy, workload, latencies, serving.rate, serving)
    engines = {"small": serving.small_engines, "large": serving.large_engines}
    if serving.devices == 1 and sum(needs.values()) > max(engines.values()):
        return True
    return any(needs[role] > engines[role] for role in needs)


def _needs(
    strategy: str, workload: Workload, latencies: Latencies, rate: float, serving: Serving
) -> dict[Role, float]:
    """Engines of each kind, with full batches, that a rate keeps at work."""
    return {
        role: rate * engine_seconds(strategy, workload, latencies, role, serving)
        for role in latencies
    }


def engine_seconds(
    strategy: str, workload: Workload, latencies: Latencies, role: Role, serving: Serving
) -> float:
    """Seconds of one engine with full batches that a question of the workload takes."""
    latency, batch = latencies[role], serving.batch_limit
    token = latency.step_seconds(batch) / batch

    def seconds(call: PlannedCall) -> float:
        cached = call.prefix_tokens if serving.prefix_reuse else 0.0
        new_tokens = call.prompt_tokens - cached
        together = _read_together(new_tokens, call.output_tokens, batch)
        fresh = [] if cached else [call.question_tokens]
        picture = 0.0 if cached else latency.picture_seconds(call.question_tokens)
        shared = latency.read_seconds(together * new_tokens, fresh) - picture
        return shared / together + picture + token * decode_steps(call, latencies)

    return sum(
        workload.count(route) / workload.questions * seconds(call)
        for route in ROUTES
        if workload.count(route)
        for stage in planned_calls(strategy, workload, route)
        for call in stage
        if call.role == role
    )


def _read_together(new_tokens: float, output_tokens: float, batch: int) -> float:
    """Prompts that a full engine reads at once: as many as sequences end at a step of decoding."""
    room = batch / max(1.0, output_tokens)
    return max(1.0, min(room, PREFILL_TOKENS / max(1.0, new_tokens)))
