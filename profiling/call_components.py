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
from .strategy_calls import graph_nodes
from .strategy_timer import StrategyTimer, TimedRun


@dataclass(frozen=True, slots=True)
class RoleRuns:
    """Runs on one question that show what the calls of one model cost.

    Attributes:
        fresh: A direct answer, of a model that knows nothing of the question.
        reason: A reasoning, of one that knows the shared prefix.
        again: The direct answer once more: all but its last token is known.
        transfer: Last, a direct answer after a reasoning; the shared prefix is known.
    """

    fresh: TimedRun
    reason: TimedRun
    again: TimedRun
    transfer: TimedRun

    @property
    def runs(self) -> tuple[TimedRun, ...]:
        """All four, in order."""
        return (self.fresh, self.reason, self.again, self.transfer)


@dataclass(frozen=True, slots=True)
class Sample:
    """All components on one question.

    Attributes:
        roles: Runs that show the calls of either model alone.
        together: A run of the cascade, which asks both models at once.
    """

    roles: Mapping[Role, RoleRuns]
    together: TimedRun

    @property
    def runs(self) -> list[TimedRun]:
        """All runs."""
        return [self.together, *(run for role in self.roles.values() for run in role.runs)]

    def by_processor(self) -> "Sample":
        """The same, with the processor's time in place of the wall clock."""
        roles = {
            role: RoleRuns(*(run.by_processor() for run in own.runs))
            for role, own in self.roles.items()
        }
        return Sample(roles, self.together.by_processor())


class SampleInParts:
    """Measures a sample in three parts, between which other things may run."""

    def __init__(self, timer: StrategyTimer, question: Mapping[str, Any]) -> None:
        """Measure nothing yet."""
        self._timer = timer
        self._question = question
        self._roles: dict[Role, RoleRuns] = {}
        self._together: TimedRun | None = None

    @property
    def parts(self) -> list[Callable[[], None]]:
        """What is to be called, in any order."""
        return [
            lambda: self._alone("small", "small_two_stage"),
            lambda: self._alone("large", "full_transfer"),
            self._at_once,
        ]

    def sample(self) -> Sample:
        """What was measured.

        Raises:
            ValueError: A part was not called.
        """
        if self._together is None or len(self._roles) < len(ROLES):
            raise ValueError("A part of the sample was not measured.")
        return Sample(self._roles, self._together)

    def _alone(self, role: Role, transferring: str) -> None:
        names = (f"{role}_direct", f"{role}_reason", f"{role}_direct", transferring)
        runs = [
            self._timer.run(name, self._question, cold=at == 0) for at, name in enumerate(names)
        ]
        self._roles[role] = RoleRuns(*runs)

    def _at_once(self) -> None:
        self._together = self._timer.run("mai", self._question)


@dataclass(frozen=True, slots=True)
class Components:
    """What calls and graphs cost. Times are in seconds.

    Attributes:
        latencies: The models', with the overhead of a call.
        question_seconds: What the graph adds to a question.
        node_seconds: What it adds for each node that runs.
        sharing: How far two calls at once hold each other up: 0 not at all, 1 as if one waited for
            the other.
    """

    latencies: Latencies
    question_seconds: float
    node_seconds: float
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
            "graph.node": (self.node_seconds, "s"),
            "two_calls_at_once.sharing": (self.sharing, "share"),
        }


def components(samples: Sequence[Sample]) -> Components:
    """Mean components over questions; differences are taken within a question.

    Means, not medians: a total is a sum, stalls of the machine included.
    """
    question, node = _graph([run for sample in samples for run in sample.runs])
    return Components(
        latencies={role: _latency(role, [one.roles[role] for one in samples]) for role in ROLES},
        question_seconds=question,
        node_seconds=node,
        sharing=_sharing(samples),
    )


def _graph(runs: Sequence[TimedRun]) -> tuple[float, float]:
    """What graphs add to their calls, by the question and by the node; neither is below 0."""
    nodes = [graph_nodes(run.strategy, run.route) for run in runs]
    seconds = [run.overhead for run in runs]
    node, question = linear_regression(nodes, seconds)
    if node < 0:
        return max(0.0, fmean(seconds)), 0.0
    if question < 0:
        node = linear_regression(nodes, seconds, proportional=True).slope
    return max(0.0, question), max(0.0, node)


def _latency(role: Role, samples: Sequence[RoleRuns]) -> ModelLatency:
    fresh, reason, again, transfer = (
        [getattr(one, name).calls[-1] for one in samples]
        for name in ("fresh", "reason", "again", "transfer")
    )
    longer = _seconds(reason) - _seconds(again)
    step = max(1e-9, longer / (sum(map(_written, reason)) - sum(map(_written, again))))

    def reading(calls: Sequence[ModelCall]) -> float:
        return fmean(call["seconds"] - step * _written(call) for call in calls)

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
        alone = [one.roles[role].fresh.calls[0]["seconds"] for role in ROLES]
        together = [c["seconds"] for c in one.together.calls if c["style"] == "direct"]
        longer += max(together) - max(alone)
        least += min(alone)
    return max(0.0, longer / least)


def _seconds(calls: Sequence[ModelCall]) -> float:
    return sum(call["seconds"] for call in calls)


def _written(call: ModelCall) -> int:
    return call["output_tokens"] or 0


def _new(call: ModelCall) -> int:
    """Tokens of the prompt that the model had to read."""
    return (call["input_tokens"] or 0) - (call["cached_tokens"] or 0)
