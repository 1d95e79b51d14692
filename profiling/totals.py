"""What a set of questions costs one after the other, by strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

from .latency import Latencies
from .strategy_calls import PlannedCall, graph_nodes, planned_calls
from .workload import ROUTES, Route, Workload


@dataclass(frozen=True, slots=True)
class Settings:
    """How calls are run.

    Attributes:
        overlap: The two direct answers run at the same time.
        prefix_reuse: What a model has read of a question is not read again.
        floor: No call is shorter than its model's `least_seconds`.
        sharing: How far calls at once hold each other up: 0 not at all, 1 as if they ran one after
            the other.
        question_seconds: What each question costs beside its calls and the graph's nodes.
        node_seconds: What a node of the graph costs beside the call in it.
    """

    overlap: bool = False
    prefix_reuse: bool = False
    floor: bool = True
    sharing: float = 0.0
    question_seconds: float = 0.0
    node_seconds: float = 0.0


def question_seconds(
    strategy: str, workload: Workload, latencies: Latencies, route: Route, settings: Settings
) -> float:
    """Seconds that one question of a route takes."""
    total = settings.question_seconds + settings.node_seconds * graph_nodes(strategy, route)
    for stage in planned_calls(strategy, workload, route):
        seconds = [call_seconds(call, latencies, settings) for call in stage]
        sharing = settings.sharing if settings.overlap else 1.0
        total += max(seconds) + sharing * (sum(seconds) - max(seconds))
    return total


def total_seconds(
    strategy: str, workload: Workload, latencies: Latencies, settings: Settings | None = None
) -> float:
    """Seconds that all questions take, one after the other.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: The questions.
        latencies: The pair's component latencies.
        settings: How calls are run; None is the paper's way: no overlap, no reuse, with the floor.
    """
    chosen = settings or Settings()
    return sum(
        count * question_seconds(strategy, workload, latencies, route, chosen)
        for route in ROUTES
        if (count := workload.count(route))
    )


def output_tokens(strategy: str, workload: Workload) -> float:
    """Mean tokens that all calls of a question write together."""
    written = sum(
        count * sum(call.output_tokens for stage in stages for call in stage)
        for route in ROUTES
        if (count := workload.count(route))
        for stages in [planned_calls(strategy, workload, route)]
    )
    return written / workload.questions


def call_seconds(call: PlannedCall, latencies: Latencies, settings: Settings) -> float:
    """Seconds of one call on its own."""
    latency = latencies[call.role] if settings.floor else latencies[call.role].without_floor()
    cached = call.prefix_tokens if settings.prefix_reuse else 0.0
    steps = decode_steps(call, latencies)
    return latency.call_seconds(call.prompt_tokens, steps, cached, call.question_tokens)


def decode_steps(call: PlannedCall, latencies: Latencies) -> float:
    """Decode steps of its model that a call takes: its output tokens.

    Where a draft writes ahead, what both compute (the draft reads the prompt as well), as steps of
    the same length.
    """
    if call.drafting is None:
        return call.output_tokens
    latency, draft, drafting = latencies[call.role], latencies["small"], call.drafting
    together = latency.drafted(draft, drafting.ahead, drafting.tokens_per_round)
    writing = call.output_tokens * together.seconds_per_token
    return (draft.prefill_seconds(call.prompt_tokens) + writing) / latency.seconds_per_token


def priced(strategies: Sequence[str], workload: Workload) -> list[str]:
    """Those of the strategies that the workload knows enough tokens for."""
    known = []
    for strategy in strategies:
        try:
            planned_calls(strategy, workload, "transferred")
        except KeyError:
            continue
        known.append(strategy)
    return known
