"""Two engines under many questions at once, as a discrete-event simulation with simpy."""

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import Any

import simpy

from .engines import Device, Engine, EngineGroup, Job
from .latency import Latencies, Role
from .strategy_calls import PlannedCall, planned_calls
from .totals import decode_steps
from .workload import ROUTES, Route, Workload

LEAST_RATE = 1e-12
"""A question in thirty thousand years."""

LARGEST_SPREAD = 10
"""Lengths that differ more than tenfold their mean are no outputs of one workload."""

Event = Generator[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Serving:
    """How questions arrive and what answers them.

    Attributes:
        questions: How many are simulated.
        rate: Questions a second, arriving at random moments (Poisson); None for `concurrency`.
        concurrency: Questions in work at any time, where there is no rate.
        batch_limit: Sequences an engine works on at once.
        small_engines: Copies of the small model.
        large_engines: Copies of the large model.
        devices: 1 if a small and a large engine share each device, 2 if every engine has its own.
        overlap: The two direct answers run at the same time.
        prefix_reuse: An engine does not read again what it has read of a question.
        spread: Standard deviation of the outputs' lengths over their mean (log-normal).
        seed: Decides arrivals, lengths and which question takes which route.
    """

    questions: int = 1000
    rate: float | None = None
    concurrency: int = 32
    batch_limit: int = 32
    small_engines: int = 1
    large_engines: int = 1
    devices: int = 2
    overlap: bool = True
    prefix_reuse: bool = True
    spread: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: One is out of range.
        """
        counts = (self.questions, self.concurrency, self.batch_limit)
        if min(*counts, self.small_engines, self.large_engines) < 1:
            raise ValueError("Questions, concurrency, batch limit and engines must be at least 1.")
        if self.rate is not None and not LEAST_RATE <= self.rate < inf:
            raise ValueError(
                f"The rate of arrivals must be a number above 0 ({LEAST_RATE} at least)."
            )
        if self.devices not in {1, 2}:
            raise ValueError("A pair runs on 1 or 2 devices.")
        if not 0 <= self.spread <= LARGEST_SPREAD:
            raise ValueError(f"The spread of lengths must be from 0 to {LARGEST_SPREAD}.")


@dataclass(frozen=True, slots=True)
class Served:
    """What came of it. Times are in seconds.

    Attributes:
        seconds: From the first arrival to the last answer.
        waits: Each question's time from its arrival to its answer, ascending.
        busy: Share of the time that engines of a role computed or waited for a shared device.
        batch: Mean sequences in work while an engine decoded.
        growth: Mean questions in work in the last third of the time in which they arrive, over
            those in the middle third: more than 1 where a queue grows.
    """

    seconds: float
    waits: tuple[float, ...]
    busy: dict[Role, float]
    batch: dict[Role, float]
    growth: float

    @property
    def rate(self) -> float:
        """Questions a second."""
        return len(self.waits) / self.seconds

    def quantile(self, share: float) -> float:
        """The time within which this share of the questions was answered."""
        return self.waits[min(len(self.waits) - 1, int(share * len(self.waits)))]


def simulate_serving(
    strategy: str, workload: Workload, latencies: Latencies, serving: Serving
) -> Served:
    """Put a workload's questions to engines and see when they are answered.

    Engines batch continuously: a waiting prompt is read as soon as there is room, which delays the
    running sequences, and then written along with them. A pair's memory is not simulated.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Routes and tokens; the shares of its routes are kept to a question.
        latencies: The pair's component latencies.
        serving: Arrivals and engines.
    """
    return _Simulation(strategy, workload, latencies, serving).run()


class _Simulation:
    def __init__(
        self, strategy: str, workload: Workload, latencies: Latencies, serving: Serving
    ) -> None:
        self._strategy = strategy
        self._workload = workload
        self._latencies = latencies
        self._serving = serving
        self._random = random.Random(serving.seed)
        self._env = simpy.Environment()
        self._groups = _engine_groups(self._env, latencies, serving)
        self._asked: list[tuple[float, float]] = []

    def run(self) -> Served:
        routes = _routes(self._workload, self._serving.questions, self._random)
        start = self._by_rate if self._serving.rate else self._by_concurrency
        finished = self._env.process(start(routes))
        self._env.run(until=finished)
        seconds = self._env.now
        return Served(
            seconds=seconds,
            waits=tuple(sorted(ended - begun for begun, ended in self._asked)),
            growth=self._growth(),
            busy={role: group.busy_share(seconds) for role, group in self._groups.items()},
            batch={role: group.mean_batch() for role, group in self._groups.items()},
        )

    def _growth(self) -> float:
        third = max(begun for begun, _ in self._asked) / 3
        middle, last = (
            sum(
                max(0.0, min(ended, start + third) - max(begun, start))
                for begun, ended in self._asked
            )
            for start in (third, 2 * third)
        )
        return last / middle if middle else 1.0

    def _by_rate(self, routes: Sequence[Route]) -> Event:
        rate = self._serving.rate or 1.0
        asked: list[simpy.Process] = []
        for route in routes:
            if asked:
                yield self._env.timeout(self._random.expovariate(rate))
            asked.append(self._env.process(self._question(route)))
        yield self._env.all_of(asked)

    def _by_concurrency(self, routes: Sequence[Route]) -> Event:
        waiting = list(reversed(routes))
        lanes = min(self._serving.concurrency, len(waiting))

        def lane() -> Event:
            while waiting:
                yield self._env.process(self._question(waiting.pop()))

        yield self._env.all_of([self._env.process(lane()) for _ in range(lanes)])

    def _question(self, route: Route) -> Event:
        begun = self._env.now
        stages = planned_calls(self._strategy, self._workload, route)
        homes = {role: group.enter() for role, group in self._groups.items()}
        scale = _length_scale(self._serving.spread, self._random)
        for stage in stages:
            calls = []
            for call in stage:
                calls.append(self._env.process(self._call(call, homes[call.role], scale)))
                if not self._serving.overlap:
                    yield calls[-1]
            yield self._env.all_of(calls)
        for engine in homes.values():
            engine.questions -= 1
        self._asked.append((begun, self._env.now))

    def _call(self, call: PlannedCall, engine: Engine, scale: float) -> Event:
        yield self._env.timeout(self._latencies[call.role].overhead_seconds)
        cached = call.prefix_tokens if self._serving.prefix_reuse else 0.0
        written = call.output_tokens * scale
        job = Job(
            done=self._env.event(),
            new_tokens=call.prompt_tokens - cached,
            continues=cached > 0,
            output_tokens=decode_steps(replace(call, output_tokens=written), self._latencies),
            question_tokens=call.question_tokens,
        )
        engine.submit(job)
        yield job.done


def _engine_groups(
    env: simpy.Environment, latencies: Latencies, serving: Serving
) -> dict[Role, EngineGroup]:
    counts: dict[Role, int] = {"small": serving.small_engines, "large": serving.large_engines}
    shared = [Device(env) for _ in range(max(counts.values()))]
    place: Callable[[int], Device] = (
        (lambda index: shared[index]) if serving.devices == 1 else (lambda _index: Device(env))
    )
    return {
        role: EngineGroup(
            env, latencies[role], [place(index) for index in range(count)], serving.batch_limit
        )
        for role, count in counts.items()
    }


def _routes(workload: Workload, questions: int, rng: random.Random) -> list[Route]:
    """Routes in the workload's shares, in random order."""
    exact = {route: workload.count(route) * questions / workload.questions for route in ROUTES}
    counts = {route: int(exact[route]) for route in ROUTES}
    by_rest = sorted(ROUTES, key=lambda route: counts[route] - exact[route])
    for route in by_rest[: questions - sum(counts.values())]:
        counts[route] += 1
    routes = [route for route in ROUTES for _ in range(counts[route])]
    rng.shuffle(routes)
    return routes


def _length_scale(spread: float, rng: random.Random) -> float:
    """A log-normal factor of mean 1."""
    if not spread:
        return 1.0
    sigma = sqrt(log(1 + spread**2))
    return rng.lognormvariate(-(sigma**2) / 2, sigma)
