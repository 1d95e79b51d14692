"""What a benchmark costs by strategy, one question after the other, and which strategy is best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..benchmarks.evaluation.results import GATED
from ..graph.strategies import STRATEGIES
from .latency import Latencies, Role
from .workload import ROUTES, Route, Style, Workload


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of one agent.

    Attributes:
        role: Which agent.
        prompt_tokens: Whole prompt, images and a transferred reasoning included.
        output_tokens: Tokens that it generates.
        question_tokens: How much of the prompt is the question with its images.
        prefix_tokens: How much of the prompt this agent has encoded before for the same question.
        drafted: Whether the small agent proposes tokens; it encodes the prompt, too.
    """

    role: Role
    prompt_tokens: float
    output_tokens: float
    question_tokens: float
    prefix_tokens: float = 0.0
    drafted: bool = False


Stage = tuple[PlannedCall, ...]
"""Calls that are independent of each other and may run concurrently."""


def planned_calls(strategy: str, workload: Workload, route: Route) -> list[Stage]:
    """Return the calls of a strategy on a question, stage by stage.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Tokens and prompt lengths.
        route: The route that the cascade takes on this question; others do not depend on it.

    Raises:
        ValueError: No such strategy.
        KeyError: The workload does not say how many tokens a needed style takes, or how
            speculative decoding goes.
    """
    prompt, tokens = workload.prompt_tokens, workload.tokens
    own_route = route if strategy in {"mai", GATED} else None

    def call(role: Role, style: Style, *, reads: float = 0.0, again: bool = False) -> PlannedCall:
        prefix = workload.prefix_tokens if again else 0.0
        mean = tokens[role, style]
        if (role, style) == ("small", "reason"):
            mean = workload.reasoning(own_route)
        return PlannedCall(role, prompt + reads, mean, prompt, prefix)

    match strategy:
        case "mai_gated" if route == "confident":
            return [(call("small", "direct"),)]
        case "mai" | "mai_gated":
            small, large = call("small", "direct"), call("large", "direct")
            stages: list[Stage] = [(small, large)] if strategy == "mai" else [(small,), (large,)]
            if route in {"reasoned", "transferred"}:
                stages.append((call("small", "reason", again=True),))
            if route == "transferred":
                length = workload.reasoning(route)
                stages.append((call("large", "direct", reads=length, again=True),))
            return stages
        case "full_transfer" | "small_two_stage" | "large_two_stage":
            first = call("large" if strategy == "large_two_stage" else "small", "reason")
            reader: Role = "small" if strategy == "small_two_stage" else "large"
            again = reader == first.role
            return [(first,), (call(reader, "direct", reads=first.output_tokens, again=again),)]
        case "speculative":
            if workload.accept_rate is None:
                raise KeyError("accept_rate")
            return [(replace(call("large", "reason"), drafted=True),)]
    if strategy not in STRATEGIES:
        raise ValueError(f"The strategy {strategy!r} is unknown; use {', '.join(STRATEGIES)}.")
    role, style = strategy.split("_")
    return [(call(role, style),)]  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Settings:
    """How calls are run; the default is the paper's way.

    Attributes:
        overlap: The two direct answers run at the same time.
        prefix_reuse: What a model has encoded of a question is not encoded again.
        floor: No call is shorter than its model's `least_seconds`.
    """

    overlap: bool = False
    prefix_reuse: bool = False
    floor: bool = True


def total_seconds(
    strategy: str, workload: Workload, latencies: Latencies, settings: Settings | None = None
) -> float:
    """Return the seconds that all questions take, one after the other.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`, or `GATED`.
        workload: The questions.
        latencies: The pair's component latencies.
        settings: How calls are run; None is the paper's way: no overlap, no reuse, with the floor.
    """
    chosen = settings or Settings()

    def seconds(call: PlannedCall) -> float:
        latency = latencies[call.role]
        cached = call.prefix_tokens if chosen.prefix_reuse else 0.0
        steps = decode_steps(call, workload, latencies)
        spent = latency.call_seconds(call.prompt_tokens, steps, cached, call.question_tokens)
        return max(spent, latency.least_seconds) if chosen.floor else spent

    return sum(
        count * (max if chosen.overlap else sum)(map(seconds, stage))
        for count, stages in calls_by_route(strategy, workload)
        for stage in stages
    )


def calls_by_route(strategy: str, workload: Workload) -> list[tuple[int, list[Stage]]]:
    """Return how many questions take each route, and the calls of one."""
    return [
        (count, planned_calls(strategy, workload, route))
        for route in ROUTES
        if (count := workload.count(route))
    ]


def output_tokens(strategy: str, workload: Workload) -> float:
    """Return the mean tokens that all calls of a question generate together."""
    generated = sum(
        count * call.output_tokens
        for count, stages in calls_by_route(strategy, workload)
        for stage in stages
        for call in stage
    )
    return generated / workload.questions


def decode_steps(call: PlannedCall, workload: Workload, latencies: Latencies) -> float:
    """Return the decode steps of its model that a call takes: its output tokens.

    With speculative decoding: what both models compute (the draft encodes the prompt as well, and
    each round is its proposed tokens and one pass of the large model), in steps of the same length.
    """
    if not call.drafted:
        return call.output_tokens
    latency, draft, ahead = latencies[call.role], latencies["small"], workload.ahead
    one_round = ahead * draft.seconds_per_token + latency.suffix_seconds(ahead + 1)
    rounds = call.output_tokens / (1 + (workload.accept_rate or 0.0) * ahead)
    seconds = draft.prefill_seconds(call.prompt_tokens) + rounds * one_round
    return seconds / latency.seconds_per_token


def predictable(workload: Workload) -> list[str]:
    """Return the strategies that the workload knows enough tokens for."""
    found: list[str] = []
    for strategy in (*STRATEGIES, *([GATED] if workload.skipped else [])):
        try:
            planned_calls(strategy, workload, "transferred")
        except KeyError:
            continue
        found.append(strategy)
    return found


class Choice(NamedTuple):
    """A strategy, what it scores in percent, and the seconds that a question takes."""

    strategy: str
    score: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Advice:
    """What is best on a workload; as text, one line.

    Attributes:
        workload: Its name.
        wanted: Score to be reached, in percent; None if no scores are known.
        best: The fastest strategy that reaches it, or the one that comes nearest; None if no scores
            are known.
        reached: Whether the best one reaches it.
        following: The next fastest one that reaches it.
    """

    workload: str
    wanted: float | None = None
    best: Choice | None = None
    reached: bool = False
    following: Choice | None = None

    def __str__(self) -> str:
        """Return one line."""
        if self.best is None:
            return f"{self.workload}: no scores are known, so nothing can be advised."
        name, score, seconds = self.best
        if not self.reached:
            return (
                f"{self.workload}: nothing reaches {self.wanted:g}; {name} comes nearest with "
                f"{score:g}, {seconds:.3g} s a question."
            )
        line = (
            f"{self.workload}: {name} is the fastest that reaches {self.wanted:g} "
            f"(scores {score:g}, {seconds:.3g} s a question)"
        )
        if self.following is None:
            return f"{line}."
        name, score, seconds = self.following
        return f"{line}; next {name} ({score:g}, {seconds:.3g} s)."


def advise(workload: Workload, latencies: Latencies, floor: float | None = None) -> Advice:
    """Choose the fastest strategy that reaches a score, of all whose tokens and scores are known.

    Args:
        workload: Routes, tokens and scores.
        latencies: The pair's component latencies.
        floor: Score that must be reached, in percent; None for that of the large model reasoning,
            or the best one where that is not known.
    """
    choices = sorted(
        (
            Choice(one, score, total_seconds(one, workload, latencies) / workload.questions)
            for one in predictable(workload)
            if (score := workload.score(one)) is not None
        ),
        key=lambda choice: choice.seconds,
    )
    if not choices:
        return Advice(workload.benchmark)
    highest = max(choice.score for choice in choices)
    reasoning = workload.score("large_reason")
    wanted = next(score for score in (floor, reasoning, highest) if score is not None)
    enough: Sequence[Choice | None] = [one for one in choices if one.score >= wanted]
    if not enough:
        nearest = next(choice for choice in choices if choice.score == highest)
        return Advice(workload.benchmark, wanted, nearest)
    best, following = [*enough, None][:2]
    return Advice(workload.benchmark, wanted, best, reached=True, following=following)
