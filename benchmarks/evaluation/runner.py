"""An evaluation: a benchmark, a pair and strategies in; a folder of results out."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...configs import ConfigError, PromptsConfig
from ...models.images import ImageError
from ...models.pairs import Pair
from ...nodes.call_cache import CallCache, Value
from ...nodes.state import MAIInput
from ..metrics import check_scoring
from ..question import Benchmark, BenchmarkQuestion
from ..records import write_json, write_lines
from .results import (
    QUESTIONS_FILE,
    RESULTS_FILE,
    SUMMARY_FILE,
    Result,
    answered,
    graph_input,
    question_record,
    summarize,
)
from .store import EvaluationStore, current_question, question_content, question_key
from .variants import strategy_graph, with_sweep

if TYPE_CHECKING:
    from .ray import RayReplicas


@dataclass(slots=True)
class Pace:
    """How far and how fast a measurement is.

    Attributes:
        total: Results that there will be.
        done: Results so far, those of former runs included.
        fresh: Those of them that this run made.
    """

    total: int
    done: int = 0
    fresh: int = 0
    _first: float = 0.0

    def advance(self, *, fresh: bool = True) -> None:
        """Count a result."""
        self.done += 1
        self.fresh += fresh
        if fresh and self.fresh == 1:  # the time to load models is no part of the rate
            self._first = time.monotonic()

    @property
    def rate(self) -> float:
        """Fresh results per second, since the first one."""
        if self.fresh < 2:
            return 0.0
        seconds = time.monotonic() - self._first
        return (self.fresh - 1) / seconds if seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Until the end, at this rate; None before there is a rate."""
        return (self.total - self.done) / self.rate if self.rate else None

    def __str__(self) -> str:
        count, left = f"{self.done}/{self.total}", self.seconds_left
        if left is None:
            return count
        end = time.strftime("%H:%M", time.localtime(time.time() + left))
        return f"{count} {self.rate:.1f}/s, {timedelta(seconds=round(left))} left, ends at {end}"


OnResult = Callable[[Pace, Result], None]


@dataclass(frozen=True, slots=True)
class Work:
    """A question, and the strategies that have no result on it yet.

    Attributes:
        key: What `question_key` says: what results depend on.
        content: What `question_content` says: whose calls these are.
        question_id: Names the question; of equal ones, the first.
        given: The question, as graphs take it.
        strategies: Names of strategies.
    """

    key: str
    content: str
    question_id: str
    given: MAIInput
    strategies: list[str]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of some strategies of a question.

    Attributes:
        work: What was to do.
        results: The results.
        calls: Calls that are not stored yet.
    """

    work: Work
    results: list[Result]
    calls: Mapping[str, Value] = field(default_factory=dict)


Engine = Callable[[Sequence[Work]], AsyncGenerator[Done]]
"""Runs strategies on questions, in this process or in others, and yields what is done."""


class StrategyGraphs:
    """The graphs of some strategies over one cache of calls."""

    def __init__(
        self, pair: Pair, strategies: Sequence[str], prompts: PromptsConfig, cache: CallCache
    ) -> None:
        """Build the graphs.

        Args:
            pair: The models.
            strategies: Names of strategies, with sparse transfer those of a `Variant`.
            prompts: The wording.
            cache: Where calls are looked up and stored.
        """
        own = with_sweep(pair, strategies)
        self._graphs = {
            name: strategy_graph(name, own, prompts, cache=cache) for name in strategies
        }

    async def run(self, work: Work, strategy: str) -> Result:
        """Run one strategy on a question."""
        # A task of its own: what a run sets in its context is not for the next one.
        return await asyncio.create_task(self._run(work, strategy))

    async def _run(self, work: Work, strategy: str) -> Result:
        current_question.set(work.content)
        return await answered(self._graphs[strategy], work.question_id, strategy, work.given)


async def run_here(
    works: Sequence[Work], graphs: StrategyGraphs, concurrency: int
) -> AsyncGenerator[Done]:
    """Run strategies in this process; closed, nothing continues.

    A question's strategies come one after the other, so that prompts with the same beginning are
    close together, for prefix caches.

    Args:
        works: What to run.
        graphs: The strategies.
        concurrency: Runs at a time; engines put their calls into batches.
    """
    waiting = iter([(work, name) for work in works for name in work.strategies])
    done: asyncio.Queue[Done] = asyncio.Queue()

    async def work_on() -> None:
        for work, name in waiting:
            done.put_nowait(Done(work, [await graphs.run(work, name)]))

    workers = [asyncio.create_task(work_on()) for _ in range(concurrency)]
    try:
        for _ in range(sum(len(work.strategies) for work in works)):
            yield await done.get()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of one evaluation.

    Attributes:
        results: A result for each question and strategy, strategies of former evaluations in the
            same folder included.
        summary: What `summary.json` holds.
        models: What tells the two models from others, by role.
        questions_hash: A SHA-256 of the folder's questions, with their images' bytes.
        calls_made: Model calls and attention passes that this evaluation made, failed ones
            included.
        failed_calls: Role, style and error of those that failed.
    """

    results: list[Result]
    summary: list[dict[str, Any]]
    models: Mapping[str, dict[str, Any]]
    questions_hash: str
    calls_made: int
    failed_calls: list[dict[str, str]]


def evaluate(
    benchmark: Benchmark,
    pair: Pair,
    strategies: Sequence[str],
    folder: Path,
    *,
    prompts: PromptsConfig | None = None,
    concurrency: int = 8,
    replicas: "RayReplicas | None" = None,
    on_stored: Callable[[int], None] = lambda _: None,
    on_result: OnResult = lambda *_: None,
) -> Evaluation:
    """Run what has no result yet, score it, and write the folder's files.

    Args:
        benchmark: The questions.
        pair: The models.
        strategies: Names of strategies, with sparse transfer those of a `Variant`.
        folder: Holds the store of calls, and gets the files. It belongs to one benchmark, pair
            and wording for good, and its files never hold less than before.
        prompts: The wording; None for the pair's.
        concurrency: Runs at a time; on Ray, in each replica.
        replicas: Who runs instead of this process; made of the same pair.
        on_stored: Called once, with the number of calls that are stored already.
        on_result: Called with every result.

    Raises:
        ConfigError: The folder belongs to another evaluation, has results of questions that are
            not asked now, is in use, or cannot be written; a strategy is unknown; the extra
            `benchmarks` is not installed; or there is no room for the replicas.
        ModelError: A model's weights cannot be found.
    """
    wording = pair.prompts if prompts is None else prompts
    check_scoring(benchmark)
    with EvaluationStore(folder) as store:
        models = store.claim(benchmark, pair, wording)
        _check_all_asked(folder, benchmark)
        on_stored(store.count())
        # A strategy that cannot be had is known before anything starts.
        graphs = StrategyGraphs(pair, strategies, wording, store)
        engine: Engine = partial(run_here, graphs=graphs, concurrency=concurrency)
        if replicas is not None:
            from .ray import run_on_ray

            engine = partial(
                run_on_ray,
                replicas=replicas,
                models=models,
                strategies=strategies,
                prompts=wording,
                concurrency=concurrency,
                store=store,
            )
        run = run_strategies(benchmark.questions, strategies, store, engine, on_result)
        results = asyncio.run(run)
        summary = summarize(benchmark, results)
        write_lines(folder / QUESTIONS_FILE, map(question_record, benchmark.questions))
        write_lines(folder / RESULTS_FILE, results)
        write_json(folder / SUMMARY_FILE, summary)
        failed = store.failed_calls()
        made = store.stored + len(failed)
        return Evaluation(results, summary, models, store.questions_hash(), made, failed)


async def run_strategies(
    questions: Sequence[BenchmarkQuestion],
    strategies: Sequence[str],
    store: EvaluationStore,
    engine: Engine,
    on_result: OnResult = lambda *_: None,
) -> list[Result]:
    """Run strategies on questions, and store every result; what is stored is not run again.

    Failures are results too, but not stored. Cancelled, all that was answered stays in the store.

    Args:
        questions: The questions; equal ones are run once.
        strategies: Names of strategies.
        store: Where results are, and where calls of the engine are put.
        engine: Who runs them.
        on_result: Called with every result, also with those of former evaluations.

    Returns:
        A result for each question and strategy, in the questions' order; of strategies that only
        former evaluations ran, those that the store holds.

    Raises:
        StoreError: Answers cannot be stored any more; no call is made after the first such one.
    """
    names = list(dict.fromkeys([*strategies, *store.strategies()]))
    same, contents = await asyncio.to_thread(_distinct, questions)
    pace, results = Pace(len(questions) * len(strategies)), []

    def keep(key: str, result: Result, *, fresh: bool) -> None:
        for question in same[key]:
            own: Result = {**result, "id": question.id}
            results.append(own)
            if result["strategy"] in strategies:
                pace.advance(fresh=fresh)
                on_result(pace, own)

    works = []
    for key, equal in same.items():
        known = {name: store.result(name, key) for name in names}
        for result in known.values():
            if result is not None:
                keep(key, result, fresh=False)
        missing = [name for name in strategies if known[name] is None]
        if missing:
            first = equal[0]
            works.append(Work(key, contents[key], first.id, graph_input(first), missing))
    async with aclosing(engine(works)) as made:
        async for done in made:
            store.add_calls(done.calls)
            for result in done.results:
                if store.problem is not None:  # to the run, this was a model that failed
                    raise store.problem
                if result["error"] is None:
                    store.add_result(done.work.key, result)
                keep(done.work.key, result, fresh=True)
    place = {question.id: number for number, question in enumerate(questions)}
    return sorted(results, key=lambda one: (place[one["id"]], names.index(one["strategy"])))


def _distinct(
    questions: Iterable[BenchmarkQuestion],
) -> tuple[dict[str, list[BenchmarkQuestion]], dict[str, str]]:
    """Return questions that are the same but for their ids, and their contents, by their keys."""
    same: dict[str, list[BenchmarkQuestion]] = {}
    contents: dict[str, str] = {}
    for question in questions:
        try:
            key, content = question_key(question), question_content(question)
        except ImageError:
            key = content = f"unreadable {question.id}"  # the run itself says what is wrong
        same.setdefault(key, []).append(question)
        contents[key] = content
    return same, contents


def _check_all_asked(folder: Path, benchmark: Benchmark) -> None:
    """Make sure that no result of a finished evaluation would be lost from the files."""
    try:
        lines = (folder / QUESTIONS_FILE).read_text(encoding="utf-8").split("\n")
        before = {json.loads(line)["id"] for line in lines if line}
    except (OSError, ValueError, KeyError, TypeError):  # nothing that could be lost
        return
    left_out = before - {question.id for question in benchmark.questions}
    if left_out:
        raise ConfigError(
            f"The folder {str(folder)!r} holds results of {len(before)} questions, and "
            f"{len(left_out)} of them are not asked now: ask them too (leave --limit out or raise "
            "it, with the same --split and --data), or name another folder with --out."
        )
