"""Which strategy is best for a pair and a workload: the fastest that reaches a score."""

from dataclasses import dataclass

from ..graph.strategies import STRATEGIES
from .latency import Latencies
from .totals import Settings, priced, total_seconds
from .workload import Workload


@dataclass(frozen=True, slots=True)
class Choice:
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
        """One line."""
        if self.best is None:
            return f"{self.workload}: no scores are known, so nothing can be advised."
        name, score, seconds = self.best.strategy, self.best.score, self.best.seconds
        if not self.reached:
            return (
                f"{self.workload}: nothing reaches {self.wanted:g}; {name} comes nearest with "
                f"{score:g}, {seconds:.3g} s a question."
            )
        line = (
            f"{self.workload}: {name} is the fastest that reaches {self.wanted:g} "
            f"(scores {score:g}, {seconds:.3g} s a question)"
        )
        after = self.following
        if after is None:
            return f"{line}."
        return f"{line}; next {after.strategy} ({after.score:g}, {after.seconds:.3g} s)."


def advise(
    workload: Workload,
    latencies: Latencies,
    floor: float | None = None,
    settings: Settings | None = None,
) -> Advice:
    """Choose among all strategies whose tokens and scores are known.

    Args:
        workload: Routes, tokens and scores.
        latencies: The pair's component latencies.
        floor: Score that must be reached, in percent; None for that of the large model reasoning,
            or the best one where that is not known.
        settings: How calls are run, None for the paper's way.
    """
    choices = [
        Choice(one, score, total_seconds(one, workload, latencies, settings) / workload.questions)
        for one in priced(STRATEGIES, workload)
        if (score := workload.score(one)) is not None
    ]
    if not choices:
        return Advice(workload.name)
    best_score = max(choice.score for choice in choices)
    wanted = workload.scores.get("large_reason", best_score) if floor is None else floor
    enough = sorted(
        (choice for choice in choices if choice.score >= wanted), key=lambda one: one.seconds
    )
    if not enough:
        nearest = min(
            (choice for choice in choices if choice.score == best_score),
            key=lambda one: one.seconds,
        )
        return Advice(workload.name, wanted, nearest)
    following = enough[1] if len(enough) > 1 else None
    return Advice(workload.name, wanted, enough[0], reached=True, following=following)
