"""Holds the simulator against a timed run of the demo pair on this machine.

Component latencies are measured on some questions, and every strategy is timed on others, in turns,
so that whatever else the machine does meanwhile falls on both alike.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..demo.held_out import HeldOut, held_out
from ..graph import create_strategy
from ..models.pairs import Pair, load_pair
from ..nodes.model_call import Agent, call_model
from ..nodes.prepare import read_task
from ..nodes.state import MAIInput, ModelCall, RunState
from .latency import ROLES, Latencies, ModelLatency, Role
from .simulation import TimedTotal
from .totals import Settings, total_seconds
from .workload import Route, Style, Workload

TIMED = ("small_direct", "large_direct", "small_reason", "large_reason", "full_transfer", "mai")
"""The strategies that are timed."""

_MEASURED_SEED, _TIMED_SEED = 52_001, 52_002
_WARMUP = 3
_OVERHEAD = ("large_direct", "mai")
"""Graphs whose own time is measured: one of a single call, and the cascade."""
_TRIMMED = 0.02
"""Share of the calls, those furthest off, that the fit leaves out: the machine stalled."""
_STYLES: tuple[Style, ...] = ("direct", "reason")


@dataclass(frozen=True, slots=True)
class Validation:
    """Predictions beside measurements, and what they were made of."""

    checked: list[TimedTotal]
    workload: Workload
    latencies: Latencies
    settings: Settings


@dataclass(slots=True)
class _Components:
    """Single calls, calls at once, and what a graph adds, on the questions for measuring."""

    calls: list[ModelCall] = field(default_factory=list)
    sharing: list[float] = field(default_factory=list)
    overhead: dict[str, list[float]] = field(
        default_factory=lambda: {name: [] for name in _OVERHEAD}
    )


@dataclass(slots=True)
class _Timed:
    """Wall clock and results by strategy, on the questions for timing."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TIMED, 0.0))
    results: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in TIMED}
    )


def validate(questions: int, folder: Path) -> Validation:
    """Measure components and time strategies on as many questions of the demo world each.

    Args:
        questions: How many.
        folder: Where pictures are written.
    """
    pair = load_pair("demo")
    pair.small.load()  # type: ignore[attr-defined]
    pair.large.load()  # type: ignore[attr-defined]
    graphs = {
        name: create_strategy(name, pair.small, pair.large, prompts=pair.prompts) for name in TIMED
    }
    measured_on = held_out(folder / "measured", questions + _WARMUP, _MEASURED_SEED)
    timed_on = held_out(folder / "timed", questions + _WARMUP, _TIMED_SEED)
    components, timed = _Components(), _Timed()
    for turn, (one, other) in enumerate(zip(measured_on, timed_on, strict=True)):
        if turn == _WARMUP:
            components, timed = _Components(), _Timed()
        _measure(pair, graphs, _input(one), components)
        for name, graph in graphs.items():
            begun = time.perf_counter()
            result = graph.invoke(_input(other))
            timed.seconds[name] += time.perf_counter() - begun
            timed.results[name].append(result)
    return _compare(components, timed)


def _input(item: HeldOut) -> MAIInput:
    return {
        "question": item.question.text,
        "images": [item.image],
        "choices": list(item.question.choices),
        "answer_type": item.question.answer_type,
    }


def _measure(
    pair: Pair, graphs: dict[str, Any], question: MAIInput, components: _Components
) -> None:
    """Every kind of call alone, both direct calls at once, and what graphs add to their calls."""
    task = read_task(cast("RunState", question))
    agents = {role: Agent(role, getattr(pair, role), pair.prompts) for role in ROLES}
    alone: dict[tuple[Role, Style], ModelCall] = {
        (role, style): call_model(agents[role], style, task, {})
        for style in _STYLES
        for role in ROLES
    }
    reasoning = alone["small", "reason"]["text"]
    transfer = call_model(agents["large"], "transfer", task, {}, reasoning)
    components.calls += [*alone.values(), transfer]
    with ThreadPoolExecutor(len(ROLES)) as pool:
        begun = time.perf_counter()
        list(pool.map(lambda role: call_model(agents[role], "direct", task, {}), ROLES))
        together = time.perf_counter() - begun
    single = [alone[role, "direct"]["seconds"] for role in ROLES]
    components.sharing.append((together - max(single)) / min(single))
    for name in _OVERHEAD:
        begun = time.perf_counter()
        result = graphs[name].invoke(question)
        passed = time.perf_counter() - begun
        components.overhead[name].append(passed - _critical_path(result["calls"]))


def _critical_path(calls: list[ModelCall]) -> float:
    """Seconds of a run's calls where the direct ones ran at once."""
    direct = [call["seconds"] for call in calls if call["style"] == "direct"]
    return max(direct) + sum(call["seconds"] for call in calls if call["style"] != "direct")


def _compare(components: _Components, timed: _Timed) -> Validation:
    latencies: Latencies = {role: _fit(role, components.calls) for role in ROLES}
    calls = [call for results in timed.results.values() for r in results for call in r["calls"]]
    settings = Settings(
        overlap=True,
        prefix_reuse=any(call["cached_tokens"] for call in calls),
        floor=False,
        sharing=max(0.0, statistics.median(components.sharing)),
        question_seconds=statistics.fmean(components.overhead["large_direct"]),
    )
    cascade = replace(settings, question_seconds=statistics.fmean(components.overhead["mai"]))
    workload = _workload(timed)
    checked = [
        TimedTotal(
            strategy=name,
            questions=workload.questions,
            measured=timed.seconds[name],
            predicted=total_seconds(
                name, workload, latencies, cascade if name == "mai" else settings
            ),
        )
        for name in TIMED
    ]
    return Validation(checked, workload, latencies, cascade)


def _fit(role: Role, calls: list[ModelCall]) -> ModelLatency:
    """Seconds of a call as a fixed part, a part a prompt token, and a part an output token."""
    own = [call for call in calls if call["role"] == role]
    read = np.array([float(call["input_tokens"] or 0) for call in own])
    written = np.array([float(call["output_tokens"] or 0) for call in own])
    seconds = np.array([call["seconds"] for call in own])
    parts = _least_squares([np.ones(len(own)), read, written], seconds)
    if parts[1] < 0:  # prompts of nearly one length tell nothing about their tokens
        fixed, per_written = _least_squares([np.ones(len(own)), written], seconds)
        parts = [fixed, 0.0, per_written]
    fixed, per_read, per_written = parts
    points = {int(n): max(0.0, fixed + per_read * n) for n in (read.min(), read.max())}
    return ModelLatency(role, tuple(sorted(points.items())), max(1e-9, per_written))


def _least_squares(columns: list[Any], seconds: Any) -> list[float]:
    """Weights of the columns, those calls left out that a first fit misses most."""
    factors = np.stack(columns, axis=1)
    off = np.abs(factors @ np.linalg.lstsq(factors, seconds, rcond=None)[0] - seconds)
    kept = off <= np.quantile(off, 1 - _TRIMMED)
    found: list[float] = np.linalg.lstsq(factors[kept], seconds[kept], rcond=None)[0].tolist()
    return found


def _workload(timed: _Timed) -> Workload:
    """Routes and tokens as the timed run had them."""
    results = timed.results
    tokens: dict[tuple[Role, Style], float] = {
        (role, style): _mean_tokens(results[f"{role}_{style}"])
        for role in ROLES
        for style in _STYLES
    }
    by_route: dict[Route, list[int]] = {"direct": [], "reasoned": [], "transferred": []}
    for result in results["mai"]:
        reasonings = [c["output_tokens"] for c in result["calls"] if c["style"] == "reason"]
        by_route[result["route"]].append(sum(reasonings))
    prompts = [result["calls"][0]["input_tokens"] for result in results["small_direct"]]
    return Workload(
        name="demo",
        questions=len(results["mai"]),
        routes={route: len(written) for route, written in by_route.items()},
        tokens=tokens,
        reason_tokens={
            route: statistics.fmean(written)
            for route, written in by_route.items()
            if written and route != "direct"
        },
        prompt_tokens=statistics.fmean(prompts),
    )


def _mean_tokens(results: list[dict[str, Any]]) -> float:
    return statistics.fmean(result["calls"][0]["output_tokens"] for result in results)
