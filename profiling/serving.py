"""Two engines under many concurrent questions, as a discrete-event simulation with simpy.

Engines batch continuously, as vLLM does: a waiting prompt is encoded as soon as the batch has
capacity, which delays the running sequences, and then decoded along with them. Memory is not
simulated.
"""

import random
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Annotated, Any, Literal

import pydantic
import simpy
from pydantic import ConfigDict, Field

from .latency import Latencies, ModelLatency, Role
from .totals import PlannedCall, Stage, calls_by_route, decode_steps
from .workload import Workload

PREFILL_TOKENS = 8192
"""Most prompt tokens that an engine encodes between two decode steps, as vLLM's default on a
GPU."""

UTILIZATION = 0.8
"""Share of an engine's time that is planned for; the rest takes up bursts of arrivals."""

_NOTHING = 1e-9
"""Tokens that are rounding errors."""

Event = Generator[Any, Any, None]

_Count = Annotated[int, Field(ge=1)]
_Rate = Annotated[float, Field(ge=1e-12, le=1e9)]


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(allow_inf_nan=False))
class Serving:
    """How questions arrive and what answers them; `mai simulate` has options of these names.

    Attributes:
        questions: How many are simulated.
        rate: Questions a second, arriving at random moments (Poisson); None for `concurrency`.
        concurrency: Concurrent questions, where there is no rate.
        batch: Most sequences in an engine's batch.
        small_engines: Copies of the small model.
        large_engines: Copies of the large model.
        devices: 1 if a small and a large engine share each device, 2 if every engine has its own.
        overlap: The two direct answers run concurrently.
        prefix_reuse: An engine does not encode again what it has encoded of a question.
        spread: Standard deviation of the outputs' lengths over their mean (log-normal).
        seed: Decides arrivals, lengths and which question takes which route.
        plan: Questions a second to plan engines for; None for no plan.
    """

    questions: _Count = 1000
    rate: _Rate | None = None
    concurrency: _Count = 32
    batch: _Count = 32
    small_engines: _Count = 1
    large_engines: _Count = 1
    devices: Literal[1, 2] = 2
    overlap: bool = True
    prefix_reuse: bool = True
    spread: Annotated[float, Field(ge=0, le=10)] = 0.5
    seed: int = 0
    plan: _Rate | None = None

    @property
    def engines(self) -> dict[Role, int]:
        """Copies of each model."""
        return {"small": self.small_engines, "large": self.large_engines}


@dataclass(frozen=True, slots=True)
class Served:
    """The outcome of a simulation. Times are in seconds.

    Attributes:
        seconds: From the first arrival to the last answer.
        responses: Each question's time from its arrival to its answer, ascending.
        busy: Share of the time that engines of a role computed or waited for a shared device.
        batch: Mean sequences in the batch while an engine decoded.
    """

    seconds: float
    responses: tuple[float, ...]
    busy: dict[Role, float]
    batch: dict[Role, float]

    @property
    def rate(self) -> float:
        """Questions a second."""
        return len(self.responses) / self.seconds

    def quantile(self, share: float) -> float:
        """Return the time within which this share of the questions was answered."""
        return self.responses[min(len(self.responses) - 1, int(share * len(self.responses)))]


def simulate_serving(
    strategy: str, workload: Workload, latencies: Latencies, serving: Serving
) -> Served:
    """Simulate when the questions of a workload are answered.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`.
        workload: Routes and tokens; the shares of its routes are kept to a question.
        latencies: The pair's component latencies.
        serving: Arrivals and engines.
    """
    return _Simulation(strategy, workload, latencies, serving).run()


def is_overloaded(needs: Mapping[Role, float], serving: Serving) -> bool:
    """Return whether questions arrive faster than engines with full batches answer them.

    Args:
        needs: What `engine_seconds` returns.
        serving: Arrivals and engines; without a rate nothing is overloaded.
    """
    busy = {role: (serving.rate or 0.0) * seconds for role, seconds in needs.items()}
    engines = serving.engines
    shared = serving.devices == 1 and sum(busy.values()) > max(engines.values())
    return shared or any(busy[role] > engines[role] for role in busy)


def engine_seconds(
    strategy: str, workload: Workload, latencies: Latencies, serving: Serving
) -> dict[Role, float]:
    """Return the seconds of one engine with full batches that a question takes on average, by role.

    A stream of questions needs its rate times that many engines, over `UTILIZATION`.

    Args:
        strategy: One of `graph.strategies.STRATEGIES`, or `GATED`.
        workload: Questions and tokens.
        latencies: The pair's component latencies.
        serving: Batch limit and prefix reuse.
    """
    batch = serving.batch

    def seconds(call: PlannedCall) -> float:
        latency = latencies[call.role]
        cached = call.prefix_tokens if serving.prefix_reuse else 0.0
        new_tokens = call.prompt_tokens - cached
        # A full engine encodes as many prompts together as sequences end at a decode step.
        ending = batch / max(1.0, call.output_tokens)
        together = max(1.0, min(ending, PREFILL_TOKENS // max(1.0, new_tokens)))
        new = [] if cached else [call.question_tokens]
        image = 0.0 if cached else latency.image_seconds(call.question_tokens)
        shared = latency.batch_prefill_seconds(together * new_tokens, new) - image
        decode = decode_steps(call, workload, latencies) * latency.step_seconds(batch) / batch
        return shared / together + image + decode

    found: dict[Role, float] = dict.fromkeys(latencies, 0.0)
    for count, stages in calls_by_route(strategy, workload):
        for stage in stages:
            for call in stage:
                found[call.role] += count / workload.questions * seconds(call)
    return found


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
        self._responses: list[float] = []
        shared = [_Device(self._env) for _ in range(max(serving.engines.values()))]
        self._engines = {
            role: [
                _Engine(
                    self._env,
                    latencies[role],
                    shared[index] if serving.devices == 1 else _Device(self._env),
                    serving.batch,
                )
                for index in range(count)
            ]
            for role, count in serving.engines.items()
        }

    def run(self) -> Served:
        questions = self._questions()
        arrivals = self._by_rate if self._serving.rate else self._by_concurrency
        self._env.run(until=self._env.process(arrivals(questions)))
        seconds = self._env.now
        busy: dict[Role, float] = {}
        batch: dict[Role, float] = {}
        for role, engines in self._engines.items():
            decoded = sum(one.decode_seconds for one in engines)
            busy[role] = sum(one.busy_seconds for one in engines) / (seconds * len(engines))
            batch[role] = sum(one.sequence_seconds for one in engines) / decoded if decoded else 0.0
        return Served(seconds, tuple(sorted(self._responses)), busy, batch)

    def _questions(self) -> list[list[Stage]]:
        """Return the calls of each question, by the workload's routes, in random order."""
        questions = self._serving.questions
        routes = calls_by_route(self._strategy, self._workload)
        exact = [count * questions / self._workload.questions for count, _ in routes]
        counts = [int(part) for part in exact]
        by_rest = sorted(range(len(routes)), key=lambda number: counts[number] - exact[number])
        for number in by_rest[: questions - sum(counts)]:
            counts[number] += 1
        found = [
            stages for (_, stages), count in zip(routes, counts, strict=True) for _ in range(count)
        ]
        self._random.shuffle(found)
        return found

    def _by_rate(self, questions: Sequence[list[Stage]]) -> Event:
        arrived: list[simpy.Process] = []
        for stages in questions:
            if arrived:
                yield self._env.timeout(self._random.expovariate(self._serving.rate or 1.0))
            arrived.append(self._env.process(self._question(stages)))
        yield self._env.all_of(arrived)

    def _by_concurrency(self, questions: Sequence[list[Stage]]) -> Event:
        waiting = list(reversed(questions))

        def lane() -> Event:
            while waiting:
                yield self._env.process(self._question(waiting.pop()))

        lanes = min(self._serving.concurrency, len(waiting))
        yield self._env.all_of([self._env.process(lane()) for _ in range(lanes)])

    def _question(self, stages: list[Stage]) -> Event:
        arrived = self._env.now
        # All calls of a question go to the same engines, where its prefix is cached.
        homes = {
            role: min(engines, key=lambda engine: engine.questions)
            for role, engines in self._engines.items()
        }
        for engine in homes.values():
            engine.questions += 1
        sigma = sqrt(log(1 + self._serving.spread**2))
        # Log-normal, of mean 1.
        scale = self._random.lognormvariate(-(sigma**2) / 2, sigma) if sigma else 1.0
        for stage in stages:
            calls = []
            for call in stage:
                calls.append(self._env.process(self._call(call, homes[call.role], scale)))
                if not self._serving.overlap:
                    yield calls[-1]
            yield self._env.all_of(calls)
        for engine in homes.values():
            engine.questions -= 1
        self._responses.append(self._env.now - arrived)

    def _call(self, call: PlannedCall, engine: "_Engine", scale: float) -> Event:
        yield self._env.timeout(self._latencies[call.role].overhead_seconds)
        cached = call.prefix_tokens if self._serving.prefix_reuse else 0.0
        scaled = replace(call, output_tokens=call.output_tokens * scale)
        sequence = _Sequence(
            done=self._env.event(),
            new_tokens=call.prompt_tokens - cached,
            new_questions=[] if cached else [call.question_tokens],
            remaining=decode_steps(scaled, self._workload, self._latencies),
        )
        engine.submit(sequence)
        yield sequence.done


@dataclass(slots=True)
class _Sequence:
    """A call in an engine.

    Attributes:
        done: Happens when the last token is generated.
        new_tokens: Prompt tokens to encode.
        new_questions: Tokens of the question with its image, where no prefix of it is cached.
        remaining: Tokens still to generate.
    """

    done: simpy.Event
    new_tokens: float
    new_questions: list[float]
    remaining: float


class _Device:
    """A device whose engines, while several compute, share its time evenly."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._computing = 0
        self._changed = env.event()

    def compute(
        self, seconds: float, stop: simpy.Event | None = None
    ) -> Generator[Any, Any, float]:
        """Compute for some seconds, longer where others do too; returns how many were done.

        Args:
            seconds: What it takes without others.
            stop: Ends it early.
        """
        self._share(1)
        left = seconds
        try:
            while left > 0:
                sharers, begun = self._computing, self._env.now
                ended = self._env.timeout(left * sharers)
                events = [ended, self._changed]
                yield self._env.any_of(events if stop is None else [*events, stop])
                if ended.processed:  # late in a long simulation, its clock is not as exact
                    left = 0.0
                    break
                left -= (self._env.now - begun) / sharers
                if stop is not None and stop.triggered:
                    break
        finally:
            self._share(-1)
        return seconds - max(0.0, left)

    def _share(self, more: int) -> None:
        self._computing += more
        before, self._changed = self._changed, self._env.event()
        before.succeed()


class _Engine:
    """One model on one device, which batches continuously.

    Attributes:
        questions: Those that it serves, also between their calls.
        busy_seconds: Time with work, waiting for a shared device included.
        decode_seconds: Time of decoding.
        sequence_seconds: The same, times the sequences in the batch.
    """

    def __init__(
        self, env: simpy.Environment, latency: ModelLatency, device: _Device, limit: int
    ) -> None:
        self._env = env
        self._latency = latency
        self._device = device
        self._limit = limit
        self._waiting: deque[_Sequence] = deque()
        self._active: list[_Sequence] = []
        self._arrival = env.event()
        self.questions = 0
        self.busy_seconds = 0.0
        self.decode_seconds = 0.0
        self.sequence_seconds = 0.0
        env.process(self._work())

    def submit(self, sequence: _Sequence) -> None:
        """Take a call."""
        self._waiting.append(sequence)
        if not self._arrival.triggered:
            self._arrival.succeed()

    def _work(self) -> Event:
        while True:
            if not self._waiting and not self._active:
                yield self._arrival
            self._arrival = self._env.event()
            begun = self._env.now
            if self._waiting and len(self._active) < self._limit:
                yield from self._prefill()
            else:
                yield from self._decode()
            self.busy_seconds += self._env.now - begun

    def _prefill(self) -> Event:
        """Encode waiting prompts together, within capacity; the others generate one token."""
        admitted = [self._waiting.popleft()]
        tokens = admitted[0].new_tokens
        capacity = self._limit - len(self._active)
        while self._waiting and len(admitted) < capacity:
            if tokens + self._waiting[0].new_tokens > PREFILL_TOKENS:
                break
            admitted.append(self._waiting.popleft())
            tokens += admitted[-1].new_tokens
        new = [question for sequence in admitted for question in sequence.new_questions]
        seconds = self._latency.batch_prefill_seconds(tokens, new)
        beside = self._latency.step_seconds(len(self._active) + 1) - self._latency.step_seconds(1)
        yield from self._device.compute(seconds + beside)
        for sequence in self._active:
            sequence.remaining -= 1
        self._active += admitted
        self._finish()

    def _decode(self) -> Event:
        """Decode until the first sequence ends or, within capacity, another call comes."""
        batch = len(self._active)
        step = self._latency.step_seconds(batch)
        steps = min(sequence.remaining for sequence in self._active)
        stop = self._arrival if batch < self._limit else None
        begun = self._env.now
        generated = (yield from self._device.compute(steps * step, stop)) / step
        self.decode_seconds += self._env.now - begun
        self.sequence_seconds += batch * (self._env.now - begun)
        for sequence in self._active:
            sequence.remaining -= generated
        self._finish()

    def _finish(self) -> None:
        for sequence in self._active:
            if sequence.remaining <= _NOTHING:
                sequence.done.succeed()
        self._active = [one for one in self._active if one.remaining > _NOTHING]
