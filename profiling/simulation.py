"""Everything that component latencies and routes predict: totals, serving, engines and advice."""

from collections.abc import Sequence
from dataclasses import dataclass

from .latency import Latencies, Role
from .serving import Served, Serving, engines_needed, is_overloaded, simulate_serving
from .totals import Advice, Settings, advise, output_tokens, predictable, total_seconds
from .workload import Workload

FAST = Settings(overlap=True, prefix_reuse=True, floor=False)
"""Both direct answers concurrently, no prefix encoded twice, no lower bound of a call."""

_PLANNED = frozenset({"mai", "large_reason"})
"""Strategies that engines are planned for."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one strategy takes on one workload.

    Attributes:
        workload: Its name.
        strategy: Its name.
        questions: How many the workload has.
        seconds: Of all questions, one after the other, the paper's way.
        fast_seconds: The same with `FAST`.
        full_transfer_seconds: Of full transfer, as `seconds`; None where it is not known.
        output_tokens: Mean tokens that all calls of a question generate together.
        score: Percent, where it is known.
        served: Under load.
        overloaded: Whether questions arrive faster than full batches answer them, so that a queue
            grows.
    """

    workload: str
    strategy: str
    questions: int
    seconds: float
    fast_seconds: float
    full_transfer_seconds: float | None
    output_tokens: float
    score: float | None
    served: Served
    overloaded: bool

    @property
    def speedup(self) -> float | None:
        """How many times faster it is than full transfer."""
        full = self.full_transfer_seconds
        return None if full is None else full / self.seconds


@dataclass(frozen=True, slots=True)
class Simulation:
    """A whole simulation.

    Attributes:
        inputs: Where the figures come from, a sentence each.
        serving: Arrivals and engines.
        predictions: By workload and strategy.
        advice: For each workload.
        plan_rate: Questions per second that `plans` are for, None if no plan was wanted.
        plans: Engines by role for that rate, by workload and strategy.
    """

    inputs: list[str]
    serving: Serving
    predictions: list[Prediction]
    advice: list[Advice]
    plan_rate: float | None
    plans: dict[tuple[str, str], dict[Role, int]]


def simulate(
    workloads: Sequence[Workload],
    latencies: Latencies,
    serving: Serving,
    *,
    inputs: Sequence[str] = (),
    floor: float | None = None,
    plan_rate: float | None = None,
) -> Simulation:
    """Predict everything that the figures allow.

    Args:
        workloads: Benchmarks with routes and tokens.
        latencies: The pair's component latencies.
        serving: Arrivals and engines.
        inputs: Where the figures come from.
        floor: Score that the advice must reach, None for the large model's reasoning.
        plan_rate: Questions a second to plan engines for.
    """
    runs = [(workload, strategy) for workload in workloads for strategy in predictable(workload)]
    return Simulation(
        inputs=list(inputs),
        serving=serving,
        predictions=[_predict(strategy, one, latencies, serving) for one, strategy in runs],
        advice=[advise(workload, latencies, floor) for workload in workloads],
        plan_rate=plan_rate,
        plans={
            (one.name, strategy): engines_needed(strategy, one, latencies, plan_rate, serving)
            for one, strategy in runs
            if plan_rate and strategy in _PLANNED
        },
    )


def _predict(
    strategy: str, workload: Workload, latencies: Latencies, serving: Serving
) -> Prediction:
    full = "full_transfer" in predictable(workload)
    return Prediction(
        workload=workload.name,
        strategy=strategy,
        questions=workload.questions,
        seconds=total_seconds(strategy, workload, latencies),
        fast_seconds=total_seconds(strategy, workload, latencies, FAST),
        full_transfer_seconds=(
            total_seconds("full_transfer", workload, latencies) if full else None
        ),
        output_tokens=output_tokens(strategy, workload),
        score=workload.score(strategy),
        served=simulate_serving(strategy, workload, latencies, serving),
        overloaded=is_overloaded(strategy, workload, latencies, serving),
    )
