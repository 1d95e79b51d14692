"""The model calls of each strategy, as the simulator plans them."""

from dataclasses import dataclass, replace

from ..graph.strategies import STRATEGIES
from .latency import Role
from .workload import Drafting, Route, Style, Workload


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of one agent.

    Attributes:
        role: Which agent.
        prompt_tokens: Whole prompt, pictures and a transferred reasoning included.
        output_tokens: Tokens that it writes.
        question_tokens: How much of it is the question with its pictures.
        prefix_tokens: How much of the prompt this agent has read before on the same question.
        drafting: How the small agent writes ahead, if it does; it reads the prompt, too.
    """

    role: Role
    prompt_tokens: float
    output_tokens: float
    question_tokens: float
    prefix_tokens: float = 0.0
    drafting: Drafting | None = None


Stage = tuple[PlannedCall, ...]
"""Calls that need nothing of each other and may run at once."""


def planned_calls(
    strategy: str, workload: Workload, route: Route, reasoning: float | None = None
) -> list[Stage]:
    """The calls of a strategy on a question.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Tokens and prompt lengths.
        route: The route that the cascade takes on this question; others do not depend on it.
        reasoning: Tokens of the small model's reasoning, None for the workload's mean.

    Raises:
        ValueError: No such strategy.
        KeyError: The workload does not say how many tokens a needed style takes, or how
            speculative decoding goes.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"The strategy {strategy!r} is unknown; use {', '.join(STRATEGIES)}.")
    if strategy == "mai":
        written = workload.reasoning(route) if reasoning is None else reasoning
        stages: list[Stage] = [
            (_answer(workload, "small", "direct"), _answer(workload, "large", "direct"))
        ]
        if route != "direct":
            stages.append((_again(workload, _reason(workload, written)),))
        if route == "transferred":
            stages.append((_transfer(workload, "large", written),))
        return stages
    small = workload.reasoning(None) if reasoning is None else reasoning
    if strategy == "full_transfer":
        transfer = _transfer(workload, "large", small, seen=False)
        return [(_reason(workload, small),), (transfer,)]
    if strategy == "small_two_stage":
        return [(_reason(workload, small),), (_transfer(workload, "small", small),)]
    if strategy == "large_two_stage":
        written = workload.tokens["large", "reason"]
        return [(_answer(workload, "large", "reason"),), (_transfer(workload, "large", written),)]
    if strategy == "small_reason":
        return [(_reason(workload, small),)]
    if strategy == "speculative":
        if workload.drafting is None:
            raise KeyError("drafting")
        return [(replace(_answer(workload, "large", "reason"), drafting=workload.drafting),)]
    role, style = strategy.split("_")
    return [(_answer(workload, role, style),)]  # type: ignore[arg-type]


def graph_nodes(strategy: str, route: Route) -> int:
    """Nodes of a strategy's graph that run: the first and the last one, calls, comparisons."""
    if strategy == "mai":
        return {"direct": 5, "reasoned": 7, "transferred": 8}[route]
    return 4 if strategy.endswith(("_two_stage", "_transfer")) else 3


def _answer(workload: Workload, role: Role, style: Style) -> PlannedCall:
    asked = workload.prompt_tokens
    return PlannedCall(role, asked, workload.tokens[role, style], asked)


def _reason(workload: Workload, tokens: float) -> PlannedCall:
    return PlannedCall("small", workload.prompt_tokens, tokens, workload.prompt_tokens)


def _again(workload: Workload, call: PlannedCall) -> PlannedCall:
    return replace(call, prefix_tokens=_prefix(workload))


def _transfer(workload: Workload, role: Role, read: float, *, seen: bool = True) -> PlannedCall:
    """A model reads a reasoning of `read` tokens and answers directly."""
    return PlannedCall(
        role,
        workload.prompt_tokens + read,
        workload.tokens[role, "direct"],
        workload.prompt_tokens,
        _prefix(workload) if seen else 0.0,
    )


def _prefix(workload: Workload) -> float:
    return max(0.0, workload.prompt_tokens - workload.instruction_tokens)
