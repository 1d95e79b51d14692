"""A whole simulation: totals alone, serving and advice for each workload."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph.strategies import STRATEGIES
from .advice import Advice, advise
from .capacity import engines_needed, is_overloaded
from .latency import Latencies, Role
from .serving import Served, Serving, simulate_serving
from .totals import Settings, output_tokens, priced, total_seconds
from .workload import Workload

ONE_BY_ONE = Settings()
FAST = Settings(overlap=True, prefix_reuse=True, floor=False)
"""Both direct answers at once, nothing read twice, no shortest time of a call."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Seconds that all questions of a workload take, one after the other.

    Attributes:
        workload: Its name.
        strategy: Its name.
        questions: How many.
        seconds: The paper's way.
        fast_seconds: With `FAST`.
        output_tokens: Mean tokens that all calls of a question write together.
        score: Percent, where it is known.
    """

    workload: str
    strategy: str
    questions: int
    seconds: float
    fast_seconds: float
    output_tokens: float
    score: float | None


@dataclass(frozen=True, slots=True)
class ServedTotals:
    """One strategy on one workload under many questions at once.

    Attributes:
        workload: Its name.
        strategy: Its name.
        served: What came of it.
        overloaded: Whether questions arrive faster than full batches answer them, so that the
            longer they arrive the longer they wait.
    """

    workload: str
    strategy: str
    served: Served
    overloaded: bool


@dataclass(frozen=True, slots=True)
class Simulation:
    """What `mai simulate` finds.

    Attributes:
        inputs: What it computes with, in words.
        latencies: The pair's component latencies.
        serving: Arrivals and engines of `served`.
        totals: Alone, by workload and strategy.
        served: Under load, by workload and strategy.
        advice: For each workload.
        plan_rate: Questions per second that `plans` are for, None if no plan was asked for.
        plans: Engines by role for that rate, by workload and strategy.
    """

    inputs: list[str]
    latencies: Latencies
    serving: Serving
    totals: list[Totals]
    served: list[ServedTotals]
    advice: list[Advice]
    plan_rate: float | None
    plans: dict[tuple[str, str], dict[Role, int]]

    def seconds(self, workload: str, strategy: str) -> float | None:
        """A total, None where it was not computed."""
        found = (
            row.seconds
            for row in self.totals
            if (row.workload, row.strategy) == (workload, strategy)
        )
        return next(found, None)


def simulate(
    workloads: Sequence[Workload],
    latencies: Latencies,
    serving: Serving,
    *,
    inputs: Sequence[str] = (),
    floor: float | None = None,
    plan_rate: float | None = None,
) -> Simulation:
    """Predict everything that the given figures allow.

    Args:
        workloads: Benchmarks with routes and tokens.
        latencies: The pair's component latencies.
        serving: Arrivals and engines.
        inputs: What these are, in words.
        floor: Score that the advice must reach, None for the large model's reasoning.
        plan_rate: Questions a second to plan engines for.
    """
    runs = [(workload, name) for workload in workloads for name in priced(STRATEGIES, workload)]
    return Simulation(
        inputs=list(inputs),
        latencies=latencies,
        serving=serving,
        totals=[_totals(name, workload, latencies) for workload, name in runs],
        served=[
            ServedTotals(
                workload.name,
                name,
                simulate_serving(name, workload, latencies, serving),
                is_overloaded(name, workload, latencies, serving),
            )
            for workload, name in runs
        ],
        advice=[advise(workload, latencies, floor) for workload in workloads],
        plan_rate=plan_rate,
        plans={
            (workload.name, name): engines_needed(name, workload, latencies, plan_rate, serving)
            for workload, name in runs
            if plan_rate and name in {"mai", "large_reason"}
        },
    )


def _totals(strategy: str, workload: Workload, latencies: Latencies) -> Totals:
    return Totals(
        workload=workload.name,
        strategy=strategy,
        questions=workload.questions,
        seconds=total_seconds(strategy, workload, latencies, ONE_BY_ONE),
        fast_seconds=total_seconds(strategy, workload, latencies, FAST),
        output_tokens=output_tokens(strategy, workload),
        score=workload.score(strategy),
    )
