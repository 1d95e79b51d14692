"""Simulated engines with continuous batching, on devices that they may share."""

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from .latency import ModelLatency

_NOTHING = 1e-9
"""Tokens that are rounding errors."""

PREFILL_TOKENS = 8192
"""Most prompt tokens that an engine reads between two decode steps, as vLLM's default on a GPU."""


class Job:
    """One call on its way through an engine.

    Attributes:
        done: Happens when the last token is written.
        new_tokens: Prompt tokens to read.
        question_tokens: How many of the prompt's are the question with its picture.
        continues: Whether a cached prefix comes before them.
        left: Tokens still to write.
    """

    __slots__ = ("continues", "done", "left", "new_tokens", "question_tokens")

    def __init__(
        self,
        done: simpy.Event,
        new_tokens: float,
        continues: bool,
        output_tokens: float,
        question_tokens: float,
    ) -> None:
        """A call that has not started."""
        self.done = done
        self.new_tokens = new_tokens
        self.continues = continues
        self.left = output_tokens
        self.question_tokens = question_tokens


class Device:
    """A device whose engines, while several compute, share its time evenly."""

    def __init__(self, env: simpy.Environment) -> None:
        """A device on which nothing computes."""
        self._env = env
        self._computing = 0
        self._changed = env.event()

    def compute(
        self, seconds: float, stop: simpy.Event | None = None
    ) -> Generator[Any, Any, float]:
        """Compute, longer where others do too.

        Args:
            seconds: What it takes on a device of its own.
            stop: Ends it early.

        Returns:
            How many of the seconds were computed.
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


class Engine:
    """One model on one device, which batches continuously.

    Attributes:
        questions: Those that it serves, also between their calls.
        busy_seconds: Time with work, waiting for a shared device included.
        decode_seconds: Time of decoding.
        sequence_seconds: The same, times the sequences in work.
    """

    def __init__(
        self, env: simpy.Environment, latency: ModelLatency, device: Device, limit: int
    ) -> None:
        """An engine without work.

        Args:
            env: The simulation.
            latency: How fast it is.
            device: Where it computes.
            limit: Sequences it works on at once.
        """
        self._env = env
        self._latency = latency
        self._device = device
        self._limit = limit
        self._waiting: deque[Job] = deque()
        self._active: list[Job] = []
        self._arrival = env.event()
        self.questions = 0
        self.busy_seconds = 0.0
        self.decode_seconds = 0.0
        self.sequence_seconds = 0.0
        env.process(self._work())

    @property
    def _jobs(self) -> int:
        return len(self._waiting) + len(self._active)

    def submit(self, job: Job) -> None:
        """Take a call."""
        self._waiting.append(job)
        if not self._arrival.triggered:
            self._arrival.succeed()

    def _work(self) -> Generator[Any, Any, None]:
        while True:
            if not self._jobs:
                yield self._arrival
            self._arrival = self._env.event()
            begun = self._env.now
            if self._waiting and len(self._active) < self._limit:
                yield from self._prefill()
            else:
                yield from self._decode()
            self.busy_seconds += self._env.now - begun

    def _prefill(self) -> Generator[Any, Any, None]:
        """Read waiting prompts together, as far as there is room; the others write a token on."""
        admitted = [self._waiting.popleft()]
        tokens = admitted[0].new_tokens
        room = self._limit - len(self._active)
        while self._waiting and len(admitted) < room:
            if tokens + self._waiting[0].new_tokens > PREFILL_TOKENS:
                break
            admitted.append(self._waiting.popleft())
            tokens += admitted[-1].new_tokens
        fresh = [job.question_tokens for job in admitted if not job.continues]
        seconds = self._latency.read_seconds(tokens, fresh)
        beside = self._latency.step_seconds(len(self._active) + 1) - self._latency.step_seconds(1)
        yield from self._device.compute(seconds + beside)
        for job in self._active:
            job.left -= 1
        self._active += admitted
        self._finish()

    def _decode(self) -> Generator[Any, Any, None]:
        """Write until the first sequence ends or, where there is room, another call comes."""
        batch = len(self._active)
        step = self._latency.step_seconds(batch)
        steps = min(job.left for job in self._active)
        stop = self._arrival if batch < self._limit else None
        begun = self._env.now
        written = (yield from self._device.compute(steps * step, stop)) / step
        self.decode_seconds += self._env.now - begun
        self.sequence_seconds += batch * (self._env.now - begun)
        for job in self._active:
            job.left -= written
        self._finish()

    def _finish(self) -> None:
        for job in self._active:
            if job.left <= _NOTHING:
                job.done.succeed()
        self._active = [job for job in self._active if job.left > _NOTHING]


class EngineGroup:
    """The copies of one model."""

    def __init__(
        self,
        env: simpy.Environment,
        latency: ModelLatency,
        devices: Sequence[Device],
        limit: int,
    ) -> None:
        """One engine on each device."""
        self._engines = [Engine(env, latency, device, limit) for device in devices]

    def enter(self) -> Engine:
        """The engine with the fewest questions, for one more until it leaves."""
        engine = min(self._engines, key=lambda engine: engine.questions)
        engine.questions += 1
        return engine

    def busy_share(self, seconds: float) -> float:
        """Mean share of the time that an engine had work."""
        return sum(engine.busy_seconds for engine in self._engines) / (seconds * len(self._engines))

    def mean_batch(self) -> float:
        """Mean sequences in work while decoding, 0 if nothing was decoded."""
        decoded = sum(engine.decode_seconds for engine in self._engines)
        written = sum(engine.sequence_seconds for engine in self._engines)
        return written / decoded if decoded else 0.0
