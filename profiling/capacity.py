"""How many engines a stream of questions needs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from .engines import PREFILL_TOKENS
from .latency import Latencies, Role
from .serving import Served, Serving, simulate_serving
from .strategy_calls import PlannedCall, planned_calls
from .totals import decode_steps
from .workload import ROUTES, Workload

UTILIZATION = 0.8
"""Share of an engine's time that is planned for; the rest takes up bursts of arrivals."""

MOST_GROWTH = 1.3
"""Questions in work that grow more than so from the middle of a stream to its end are a queue."""

LEAST_QUESTIONS = 6000
"""Of fewer, a burst of arrivals looks like a queue that grows."""

MOST_QUESTIONS = 60_000

_FILLED = 2
"""So many times what the engines work on at once are simulated at least."""

_LONGER = 5

SIMULATED_ENGINES = 16
"""A stream that needs more of a model is proven at a fraction of its rate and of its engines."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Engines for a stream, and the simulation that proves them.

    Attributes:
        rate: Questions a second.
        engines: Copies by role.
        simulated_rate: The rate of the simulation, the same fraction of `rate` as of the engines.
        served: What the simulation answered.
    """

    rate: float
    engines: Mapping[Role, int]
    simulated_rate: float
    served: Served


def plan_engines(
    strategy: str, workload: Workload, latencies: Latencies, rate: float, serving: Serving
) -> Plan:
    """Count the engines that a strategy needs at a rate, and simulate them, a device each.

    They are counted by full batches. Where a queue grows all the same, there are more, up to twice
    as many: beyond, it is none of engines.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Routes and tokens.
        latencies: The pair's component latencies.
        rate: Questions a second.
        serving: Batch limit, prefix reuse, spread, and how many questions are simulated.
    """
    needs = _needs(strategy, workload, latencies, rate, serving)
    engines: dict[Role, int] = {role: max(1, ceil(n / UTILIZATION)) for role, n in needs.items()}
    most = {role: 2 * count for role, count in engines.items()}
    while True:
        plan = _tried(strategy, workload, latencies, rate, serving, engines)
        fuller = [role for role in engines if needs[role] and engines[role] < most[role]]
        if plan.served.growth <= MOST_GROWTH or not fuller:
            break
        fullest = max(fuller, key=lambda role: needs[role] / engines[role])
        engines[fullest] = max(engines[fullest] + 1, ceil(engines[fullest] / UTILIZATION))
    used: dict[Role, int] = {role: count if needs[role] else 0 for role, count in engines.items()}
    return replace(plan, engines=used)


def _tried(
    strategy: str,
    workload: Workload,
    latencies: Latencies,
    rate: float,
    serving: Serving,
    engines: Mapping[Role, int],
) -> Plan:
    """A plan with so many engines, simulated.

    What looks like a queue is looked at again for longer: a burst of arrivals ends, and so does the
    time in which empty engines fill.
    """
    shrink = max(1.0, max(engines.values()) / SIMULATED_ENGINES)
    fewer = {role: max(1, ceil(count / shrink)) for role, count in engines.items()}
    room = serving.batch_limit * sum(fewer.values())
    questions = max(serving.questions, LEAST_QUESTIONS, min(_FILLED * room, MOST_QUESTIONS))
    tried = replace(
        serving,
        questions=questions,
        rate=rate / shrink,
        small_engines=fewer["small"],
        large_engines=fewer["large"],
        devices=2,
    )
    served = simulate_serving(strategy, workload, latencies, tried)
    if served.growth > MOST_GROWTH:
        longer = replace(tried, questions=max(questions, min(_LONGER * questions, MOST_QUESTIONS)))
        served = simulate_serving(strategy, workload, latencies, longer)
    return Plan(rate, dict(engines), rate / shrink, served)


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
