"""What a model call in a graph is made of, measured call by call on the demo pair.

A call costs its overhead (the chat layer around the model), reading what the model has not read
yet, and writing. A question costs its calls and what the graph adds. Two calls at once slow each
other down, where they share a processor or Python's lock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression
from typing import Any

from ..nodes.state import ModelCall
from .latency import ROLES, Latencies, ModelLatency, Role
from .strategy_calls import supersteps
from .strategy_timer import StrategyTimer, TimedRun

MEASURED = (
    "small_direct", "small_reason", "small_two_stage", "large_direct", "large_reason",
    "full_transfer", "mai",
)  # fmt: skip
"""The strategies whose runs show the components."""


@dataclass(frozen=True, slots=True)
class RoleSample:
    """Calls of one model on one question.

    Attributes:
        fresh: A direct answer, of a model that knows nothing of the question.
        reason: A reasoning, of one that knows the shared prefix.
        again: The direct answer once more: all but its last token is known.
        transfer: A direct answer after a reasoning; the shared prefix is known.
    """

    fresh: ModelCall
    reason: ModelCall
    again: ModelCall
    transfer: ModelCall


@dataclass(frozen=True, slots=True)
class Sample:
    """All components on one question.

    Attributes:
        roles: Calls of either model alone.
        together: Both direct answers at once, by role.
        overheads: Supersteps of a run, and what it took beside its calls.
    """

    roles: Mapping[Role, RoleSample]
    together: Mapping[Role, ModelCall]
    overheads: Sequence[tuple[int, float]]


class SampleInParts:
    """Measures a sample in three parts, between which other things may run."""

    def __init__(self, timer: StrategyTimer, question: Mapping[str, Any]) -> None:
        """Measure nothing yet."""
        self._timer = timer
        self._question = question
        self._roles: dict[Role, RoleSample] = {}
        self._together: dict[Role, ModelCall] = {}
        self._overheads: list[tuple[int, float]] = []

    @property
    def parts(self) -> list[Callable[[], None]]:
        """What is to be called, in any order."""
        return [
            lambda: self._alone("small", "small_two_stage"),
            lambda: self._alone("large", "full_transfer"),
            self._at_once,
        ]

    def sample(self) -> Sample:
        """What was measured, once all parts were called."""
        return Sample(self._roles, self._together, self._overheads)

    def _alone(self, role: Role, transferring: str) -> None:
        fresh = self._run(f"{role}_direct", cold=True)
        later = [
            self._run(name, cold=False)
            for name in (f"{role}_reason", f"{role}_direct", transferring)
        ]
        self._roles[role] = RoleSample(fresh.calls[0], *(run.calls[-1] for run in later))

    def _at_once(self) -> None:
        run = self._run("mai", cold=True)
        direct = [call for call in run.calls if call["style"] == "direct"]
        self._together = {role: call for call in direct for role in ROLES if call["role"] == role}

    def _run(self, name: str, *, cold: bool) -> TimedRun:
        run = self._timer.run(name, self._question, cold=cold)
        self._overheads.append((supersteps(name, run.route), run.overhead))
        return run


@dataclass(frozen=True, slots=True)
class Components:
    """What calls and graphs cost. Times are in seconds.

    Attributes:
        latencies: The models', with the overhead of a call.
        question_seconds: What the graph adds to a question.
        superstep_seconds: What it adds for each superstep.
        sharing: How far two calls at once hold each other up: 0 not at all, 1 as if one waited for
            the other.
    """

    latencies: Latencies
    question_seconds: float
    superstep_seconds: float
    sharing: float

    def figures(self) -> dict[str, tuple[float, str]]:
        """Each component by name, with its unit."""
        found: dict[str, tuple[float, str]] = {}
        for role, latency in self.latencies.items():
            read = latency.prefill[0][1]
            found |= {
                f"{role}.call_overhead": (latency.overhead_seconds, "s"),
                f"{role}.read_prompt": (read, "s"),
                f"{role}.read_token": (latency.prefill_per_token, "s"),
                f"{role}.write_token": (latency.seconds_per_token, "s"),
            }
        return found | {
            "graph.question": (self.question_seconds, "s"),
            "graph.superstep": (self.superstep_seconds, "s"),
            "two_calls_at_once.sharing": (self.sharing, "share"),
        }


def components(samples: Sequence[Sample]) -> Components:
    """Mean components over questions; differences are taken within a question.

    Means, not medians: a total is a sum, stalls of the machine included.
    """
    overheads = [point for sample in samples for point in sample.overheads]
    steps, seconds = zip(*overheads, strict=True)
    graph = linear_regression(steps, seconds)
    superstep = max(0.0, graph.slope)
    return Components(
        latencies={role: _latency(role, [one.roles[role] for one in samples]) for role in ROLES},
        question_seconds=max(0.0, fmean(seconds) - superstep * fmean(steps)),
        superstep_seconds=superstep,
        sharing=_sharing(samples),
    )


def _latency(role: Role, samples: Sequence[RoleSample]) -> ModelLatency:
    longer = sum(one.reason["seconds"] - one.again["seconds"] for one in samples)
    more = sum(_written(one.reason) - _written(one.again) for one in samples)
    step = max(1e-9, longer / more)

    def reading(calls: Sequence[ModelCall]) -> float:
        return fmean(call["seconds"] - step * _written(call) for call in calls)

    fresh, again, transfer = (
        [getattr(one, name) for one in samples] for name in ("fresh", "again", "transfer")
    )
    # Behind a cached prefix, a call costs its overhead and one pass of the model: as long as a
    # step where hardly a token is read, and by the token where a reasoning is.
    overhead = max(0.0, reading(again) - step)
    token = max(0.0, reading(transfer) - overhead) / fmean(map(_new, transfer))
    prompt = round(fmean(map(_new, fresh)))
    read = max(0.0, reading(fresh) - overhead)
    return ModelLatency(
        model=role,
        prefill=((prompt, read), (2 * prompt, read + token * prompt)),
        seconds_per_token=step,
        overhead_seconds=overhead,
    )


def _sharing(samples: Sequence[Sample]) -> float:
    longer = least = 0.0
    for one in samples:
        alone = [one.roles[role].fresh["seconds"] for role in ROLES]
        longer += max(call["seconds"] for call in one.together.values()) - max(alone)
        least += min(alone)
    return max(0.0, longer / least)


def _written(call: ModelCall) -> int:
    return call["output_tokens"] or 0


def _new(call: ModelCall) -> int:
    """Tokens of the prompt that the model had to read."""
    return (call["input_tokens"] or 0) - (call["cached_tokens"] or 0)
