"""Holds the simulator against a timed run of the demo pair on this machine.

Components are measured on some questions, and every strategy is timed on others, in turns, so that
whatever else the machine does meanwhile falls on both alike. Both are read from two clocks: the
wall's, and the processor's, which a busy machine changes little.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ..demo.held_out import HeldOut, held_out
from ..nodes.model_call import accept_rate
from .call_components import Components, Sample, SampleInParts, components
from .latency import ROLES, Role
from .simulation import Component, TimedTotal
from .strategy_timer import StrategyTimer, TimedRun, graph_input
from .totals import Settings, total_seconds
from .workload import Drafting, Route, Style, Workload

_MEASURED_SEED, _TIMED_SEED = 52_001, 52_002
_WARMUP = 3
_STYLES: tuple[Style, ...] = ("direct", "explain", "reason")
_RESAMPLES = 200
_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Validation:
    """Predictions beside measurements, and what they were made of.

    Attributes:
        checked: Every strategy's total, with 95% bounds of its error, by drawing the turns anew.
        by_processor: The same in the processor's time.
        components: What the predictions of `checked` are made of, with such bounds.
        workload: Routes and tokens of the timed run.
        predicted_from: The components as the simulator takes them.
        settings: How the calls were run.
    """

    checked: list[TimedTotal]
    by_processor: list[TimedTotal]
    components: list[Component]
    workload: Workload
    predicted_from: Components
    settings: Settings


@dataclass(frozen=True, slots=True)
class Turn:
    """One question's components, and another question by every strategy."""

    sample: Sample
    timed: Mapping[str, TimedRun]

    def by_processor(self) -> "Turn":
        """The same, with the processor's time in place of the wall clock."""
        timed = {name: run.by_processor() for name, run in self.timed.items()}
        return Turn(self.sample.by_processor(), timed)


def validate(questions: int, folder: Path) -> Validation:
    """Measure components and time strategies on as many questions of the demo world each.

    Args:
        questions: How many.
        folder: Where pictures are written.
    """
    timer = StrategyTimer()
    measured_on = held_out(folder / "measured", questions + _WARMUP, _MEASURED_SEED)
    timed_on = held_out(folder / "timed", questions + _WARMUP, _TIMED_SEED)
    turns = [
        _turn(timer, number, one, other)
        for number, (one, other) in enumerate(zip(measured_on, timed_on, strict=True))
    ]
    return compare(turns[_WARMUP:])


def compare(turns: Sequence[Turn]) -> Validation:
    """Predict the totals of the timed strategies from the components of the same turns."""
    found = _Prediction(turns)
    checked, measured = _checked(found, turns)
    by_processor = [turn.by_processor() for turn in turns]
    return Validation(
        checked=checked,
        by_processor=_checked(_Prediction(by_processor), by_processor)[0],
        components=measured,
        workload=found.workload,
        predicted_from=found.components,
        settings=found.settings,
    )


def _checked(
    found: "_Prediction", turns: Sequence[Turn]
) -> tuple[list[TimedTotal], list[Component]]:
    """Totals and components with their bounds."""
    errors: dict[str, list[float]] = {name: [] for name in found.seconds}
    figures: dict[str, list[float]] = {name: [] for name in found.components.figures()}
    rng = random.Random(_TIMED_SEED)
    for _ in range(_RESAMPLES):
        drawn = _Prediction(rng.choices(turns, k=len(turns)))
        for name, seconds in drawn.seconds.items():
            errors[name].append(seconds / drawn.measured[name] - 1)
        for name, (value, _unit) in drawn.components.figures().items():
            figures[name].append(value)
    totals = [
        TimedTotal(
            strategy=name,
            questions=len(turns),
            measured=found.measured[name],
            predicted=seconds,
            error_bounds=_bounds(errors[name]),
        )
        for name, seconds in found.seconds.items()
    ]
    parts = [
        Component(name, value, unit, _bounds(figures[name]))
        for name, (value, unit) in found.components.figures().items()
    ]
    return totals, parts


def _turn(timer: StrategyTimer, number: int, one: HeldOut, other: HeldOut) -> Turn:
    """Components of one question and every strategy on another one, in turns."""
    parts = SampleInParts(timer, graph_input(one))
    timed: dict[str, TimedRun] = {}

    def strategy(name: str) -> Callable[[], None]:
        def run() -> None:
            timed[name] = timer.run(name, graph_input(other))

        return run

    # In any order: what ran before, and so lies in the processor's caches, makes up to a tenth.
    jobs = [*parts.parts, *map(strategy, timer.names)]
    random.Random(number).shuffle(jobs)
    for job in jobs:
        job()
    return Turn(parts.sample(), {name: timed[name] for name in timer.names})


class _Prediction:
    """Totals of strategies from components, and what they really took."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        runs = {name: [turn.timed[name] for turn in turns] for name in turns[0].timed}
        self.components = components([turn.sample for turn in turns])
        self.workload = _workload(runs)
        self.settings = Settings(
            overlap=True,
            prefix_reuse=True,
            floor=False,
            sharing=self.components.sharing,
            question_seconds=self.components.question_seconds,
            node_seconds=self.components.node_seconds,
        )
        self.measured = {name: sum(run.seconds for run in own) for name, own in runs.items()}
        self.seconds = {
            name: total_seconds(name, self.workload, self.components.latencies, self.settings)
            for name in runs
        }


def _workload(runs: Mapping[str, Sequence[TimedRun]]) -> Workload:
    """Routes and tokens as the timed run had them."""
    tokens: dict[tuple[Role, Style], float] = {
        (role, style): fmean(run.calls[0]["output_tokens"] or 0 for run in runs[f"{role}_{style}"])
        for role in ROLES
        for style in _STYLES
    }
    by_route: dict[Route, list[int]] = {"direct": [], "reasoned": [], "transferred": []}
    for run in runs["mai"]:
        written = [c["output_tokens"] or 0 for c in run.calls if c["style"] == "reason"]
        by_route[run.route].append(sum(written))
    prompt = fmean(run.calls[0]["input_tokens"] or 0 for run in runs["small_direct"])
    # The second prompt of two-stage knows what all prompts about a question share.
    shared = fmean(run.calls[1]["cached_tokens"] or 0 for run in runs["small_two_stage"])
    rate = accept_rate(call for run in runs.get("speculative", ()) for call in run.calls)
    return Workload(
        name="demo",
        questions=len(runs["mai"]),
        routes={route: len(lengths) for route, lengths in by_route.items()},
        tokens=tokens,
        reason_tokens={
            route: fmean(lengths)
            for route, lengths in by_route.items()
            if lengths and route != "direct"
        },
        prompt_tokens=prompt,
        instruction_tokens=prompt - shared,
        drafting=None if rate is None else Drafting(rate),
    )


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """95% bounds: what 2.5% of the values lie below, and above."""
    ordered = sorted(values)
    tail = int(_TAIL * len(ordered))
    return ordered[tail], ordered[-1 - tail]
