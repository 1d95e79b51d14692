"""How near the cascade is to the time that its model calls need, and what each saving is worth.

All figures are ratios or differences within one process and one run; what is compared is measured
in turn, question by question, so that a busy machine slows both.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ..graph import STRATEGIES, create_mai, create_strategy, unavailable
from ..models.pairs import Pair
from ..models.transformers.chat import ChatTransformers
from ..nodes.model_call import Agent, PromptStyle, task_messages
from ..nodes.prepare import read_task
from ..nodes.state import ModelCall
from ..records.record import Record
from .speed_floor import floors, measure_rates
from .speed_records import median_record, missing_record, ratio_record
from .speed_runs import (
    DistantModel,
    InstantModel,
    Question,
    Timed,
    questions,
    run,
    run_many,
    run_one_by_one,
    with_settings,
)

AT_ONCE = (1, 8, 32, 128)
"""Numbers of concurrent questions."""

DISTANCE = 0.1
"""Seconds that the large model of `gain.overlap_apart` keeps its caller waiting."""

_REPEATS = 3
_OVERHEAD_RUNS = 60

Progress = Callable[[str], object]


def measure_speed(pair: Pair, folder: Path, count: int, progress: Progress) -> list[Record]:
    """Measure everything.

    Args:
        pair: Two models; questions are those of the demo world, whatever the pair.
        folder: Where the pictures are drawn.
        count: Number of questions of each figure.
        progress: Told what is being measured.
    """
    many = questions(folder, max(count, *AT_ONCE))
    asked = many[:count]
    for model in (pair.small, pair.large):
        if isinstance(model, ChatTransformers):
            progress("loading the models")
            model.load()
    progress("graph without models")
    records = graph_overhead(pair, asked)
    progress("routes, and each saving switched off")
    records += routes(pair, asked, progress)
    progress("strategies")
    records += strategies(pair, asked, progress)
    return records + concurrency(pair, many, count, progress)


def graph_overhead(pair: Pair, asked: Sequence[Question]) -> list[Record]:
    """Time of a run whose models answer at once: on the shortest and on the longest route."""
    records = []
    for name, small in (
        ("graph_overhead_ms", InstantModel(answer="2")),
        ("graph_overhead_ms.transferred", InstantModel(answer="3")),
    ):
        graph = create_mai(small, InstantModel(answer="2"), prompts=pair.prompts)
        given = {**asked[0], "choices": [], "answer_type": "number"}
        run(graph, given, pair)
        times = [1000 * run(graph, given, pair).seconds for _ in range(_OVERHEAD_RUNS)]
        note = f"median of {_OVERHEAD_RUNS} runs of one question"
        records.append(replace(median_record(name, times, "ms"), questions=1, note=note))
    return records


def routes(pair: Pair, asked: Sequence[Question], progress: Progress) -> list[Record]:
    """Wall time over the critical path by route, tokens computed twice, and each saving's gain."""
    plain = create_mai(pair.small, pair.large, prompts=pair.prompts)
    overlapping = create_mai(pair.small, pair.large, prompts=pair.prompts, overlap="reasoning")
    whole = with_settings(pair, prefix_cache_bytes=0)
    computing = create_mai(whole.small, whole.large, prompts=pair.prompts)
    distant = DistantModel(model=pair.large, seconds=DISTANCE)
    apart, apart_overlapping = (
        create_mai(pair.small, distant, prompts=pair.prompts, overlap=overlap)
        for overlap in (None, "reasoning")
    )
    alone = []
    runs: dict[str, list[Timed]] = defaultdict(list)
    run(plain, asked[0], pair)
    for number, question in enumerate(asked):
        progress(f"question {number + 1} of {len(asked)}")
        alone.append(measure_rates(pair, question))
        runs["plain"].append(run(plain, question, pair))
        runs["overlap"].append(run(overlapping, question, pair))
        runs["prefix_reuse"].append(run(computing, question, pair))
        runs["apart"].append(run(apart, question, pair))
        runs["apart_overlap"].append(run(apart_overlapping, question, pair))
    records = critical_path(runs["plain"], "wall_over_critical_path")
    records += floors(alone, runs["plain"])
    records += recomputed(pair, asked, runs["plain"])
    records += gains("prefix_reuse", without=runs["prefix_reuse"], with_it=runs["plain"])
    records += gains("overlap", without=runs["plain"], with_it=runs["overlap"])
    return records + gains("overlap_apart", without=runs["apart"], with_it=runs["apart_overlap"])


def critical_path(timed: Sequence[Timed], name: str) -> list[Record]:
    """Wall time over the critical path of a run's own model calls: all, and by route."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for one in timed:
        ratios[name].append(one.seconds / one.critical_path)
        ratios[f"{name}.{one.route}"].append(one.seconds / one.critical_path)
    return [median_record(key, values, "ratio") for key, values in ratios.items()]


def recomputed(pair: Pair, asked: Sequence[Question], timed: Sequence[Timed]) -> list[Record]:
    """The share of prompt tokens that a disputed question's second calls compute once more.

    Of the longest common token prefix with the same model's first prompt. Without a value for
    models that do not tell their tokens, and where no question is disputed.
    """
    name = "prefix_recomputed_share"
    if not all(isinstance(model, ChatTransformers) for model in (pair.small, pair.large)):
        return [missing_record(name, "share", "the models do not tell their tokens")]
    again, shared = [], []
    for question, one in zip(asked, timed, strict=True):
        pairs = [_common_prefix(pair, question, call, one) for call in one.calls]
        found = [(common, call) for common, call in zip(pairs, one.calls, strict=True) if common]
        if found:
            shared.append(float(sum(common for common, _ in found)))
            cached = [(common, call["cached_tokens"] or 0) for common, call in found]
            again.append(float(sum(max(0, common - read) for common, read in cached)))
    if not shared:
        reason = f"none of the {len(asked)} questions was disputed, so no prompt was computed twice"
        return [missing_record(name, "share", f"{reason}; ask more questions")]
    return [ratio_record(name, again, shared, "share")]


def gains(name: str, *, without: Sequence[Timed], with_it: Sequence[Timed]) -> list[Record]:
    """Time without a saving over the time with it: all questions, and by route; CPU time too."""
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for slow, fast in zip(without, with_it, strict=True):
        groups[f"gain.{name}"].append((slow.seconds, fast.seconds))
        groups[f"gain.{name}.{fast.route}"].append((slow.seconds, fast.seconds))
        if fast.cpu_seconds:
            cpu = (slow.cpu_seconds, fast.cpu_seconds)
            groups[f"cpu_gain.{name}.{fast.route}"].append(cpu)
    return [
        median_record(key, [slow / fast for slow, fast in values], "ratio")
        for key, values in groups.items()
    ]


def strategies(pair: Pair, asked: Sequence[Question], progress: Progress) -> list[Record]:
    """Time of each strategy that the pair can do over that of `mai`, on the same questions."""
    graphs = {
        name: create_strategy(name, pair.small, pair.large, prompts=pair.prompts)
        for name in STRATEGIES
        if unavailable(name, pair.small, pair.large, files=True) is None
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    for number, question in enumerate(asked):
        progress(f"strategies, question {number + 1} of {len(asked)}")
        for name, graph in graphs.items():
            seconds[name].append(run(graph, question, pair).seconds)
    return [
        ratio_record(f"time_over_mai.{name}", values, seconds["mai"])
        for name, values in seconds.items()
        if name != "mai"
    ]


def concurrency(
    pair: Pair, asked: Sequence[Question], count: int, progress: Progress
) -> list[Record]:
    """Questions a second at several numbers of concurrent ones, and what batches are worth.

    Every number is held against the same questions asked one by one, with nothing left of them.

    Args:
        pair: Two models.
        asked: As many questions as are asked at once, and at least `count`.
        count: How many are asked; more where more are asked at once.
        progress: Told what is being measured.
    """
    single = with_settings(pair, batch_size=1)
    plain = create_mai(pair.small, pair.large, prompts=pair.prompts)
    graphs: dict[str, Any] = {str(number): plain for number in AT_ONCE[1:]}
    graphs["without_batches.32"] = create_mai(single.small, single.large, prompts=pair.prompts)
    at_once = {name: int(name.rpartition(".")[2]) for name in graphs}
    sizes = {"1": count} | {name: max(count, number) for name, number in at_once.items()}
    most = max(count, *AT_ONCE)
    seconds: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    speedups: dict[str, list[float]] = defaultdict(list)
    for repeat in range(_REPEATS):
        progress(f"one question after the other ({repeat + 1} of {_REPEATS})")
        alone = asyncio.run(run_one_by_one(plain, asked[:most], pair))
        seconds["1"].append(fmean(took for took, _ in alone[:count]))
        cpu["1"].append(1000 * fmean(computed for _, computed in alone[:count]))
        for name, graph in graphs.items():
            number, size = at_once[name], sizes[name]
            progress(f"{name} questions at once ({repeat + 1} of {_REPEATS})")
            took, computed = asyncio.run(run_many(graph, asked[:size], pair, number))
            seconds[name].append(took)
            cpu[name].append(1000 * computed)
            speedups[name].append(fmean(one for one, _ in alone[:size]) / took)

    def record(figure: str, name: str, values: Sequence[float], unit: str) -> Record:
        return replace(median_record(figure, values, unit), questions=sizes[name])

    records = [
        record(f"questions_per_second.{name}", name, [1 / took for took in values], "questions/s")
        for name, values in seconds.items()
    ]
    records += [
        record(f"cpu_ms_per_question.{name}", name, values, "ms") for name, values in cpu.items()
    ]
    for number in AT_ONCE[1:]:
        name = str(number)
        records.append(record(f"speedup_{name}_over_1", name, speedups[name], "ratio"))
    batches = zip(seconds["without_batches.32"], seconds["32"], strict=True)
    gain = [slow / fast for slow, fast in batches]
    return [*records, record("gain.batching.32", "32", gain, "ratio")]


def _common_prefix(pair: Pair, question: Question, call: ModelCall, timed: Timed) -> int:
    """Tokens that a second call's prompt shares with the same model's direct one; 0 for others."""
    style: PromptStyle
    if (call["role"], call["style"]) == ("small", "reason"):
        style, reasoning = "reason", ""
    elif (call["role"], call["style"]) == ("large", "transfer"):
        style = "transfer"
        reasoning = next(one["text"] for one in timed.calls if one["style"] == "reason")
    else:
        return 0
    model: Any = getattr(pair, call["role"])
    agent = Agent("small" if call["role"] == "small" else "large", model, pair.prompts)
    task = read_task(dict(question))  # type: ignore[arg-type]
    first = model.prompt_token_ids(task_messages(agent, "direct", task))
    second = model.prompt_token_ids(task_messages(agent, style, task, reasoning))
    same = (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(same, min(len(first), len(second)))
