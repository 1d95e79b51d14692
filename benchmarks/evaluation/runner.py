"""Puts a benchmark's questions to strategies, several at a time, and keeps every result."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...models.images import ImageError
from ...nodes.state import MAIInput
from ..question import BenchmarkQuestion
from .call_seconds import Seconds, call_seconds
from .call_store import CallStore
from .pace import Pace
from .results import Result, failed, finished, graph_input, question_key

Graphs = Mapping[str, Any]
OnProgress = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Pace):
    """How far an evaluation is, at the moment that a result came.

    Attributes:
        result: The result.
    """

    result: Result


@dataclass(frozen=True, slots=True)
class Run:
    """A strategy on questions that are the same but for their ids.

    Attributes:
        strategy: The strategy's name.
        questions: The questions; the first is asked.
        key: What the result depends on, hashed; equal for all strategies on these questions.
    """

    strategy: str
    questions: tuple[BenchmarkQuestion, ...]
    key: str


class OnResult(Protocol):
    """Takes a run's result; `fresh` says whether it took any time to speak of."""

    def __call__(self, run: Run, result: Result, *, fresh: bool) -> None:
        """Take it."""
        ...


class Engine(Protocol):
    """Makes runs in another place than this process."""

    async def run(self, waiting: Sequence[Run], on_result: OnResult) -> None:
        """Make all runs, and tell each result as it comes."""
        ...


class Runner:
    """Runs graphs whose models are stored; what the store holds already is not run again."""

    def __init__(
        self,
        graphs: Graphs,
        store: CallStore,
        *,
        concurrency: int = 8,
        on_progress: OnProgress = lambda _: None,
        engine: Engine | None = None,
    ) -> None:
        """Set up.

        Args:
            graphs: Each strategy's graph, by name, made with `StoredModel`s.
            store: Keeps the results.
            concurrency: Runs at a time; engines put their calls into batches.
            on_progress: Called with every result, also with those of former evaluations.
            engine: Who makes the runs; None for this process.
        """
        self._graphs = graphs
        self._store = store
        self._concurrency = concurrency
        self._on_progress = on_progress
        self._engine = engine
        self._results: list[Result] = []
        self._done = 0
        self._fresh = 0
        self._total = 0
        self._first = 0.0

    async def run(self, questions: Sequence[BenchmarkQuestion]) -> list[Result]:
        """Ask everything that has no result yet.

        Failures are results too; cancelled, it leaves all that was answered in the store.

        Returns:
            A result for each question and strategy, in the questions' order; of strategies that
            only former evaluations asked, those that the store holds.

        Raises:
            StoreError: Answers cannot be stored any more; no call is made after the first such one.
        """
        self._results, self._done, self._fresh = [], 0, 0
        self._total = len(questions) * len(self._graphs)
        waiting: list[Run] = []
        others = [name for name in self._store.strategies() if name not in self._graphs]
        for run in await asyncio.to_thread(self._plan, questions, [*self._graphs, *others]):
            known: Any = self._store.result(run.strategy, run.key)
            if run.strategy in others:
                if known is not None:
                    self._keep(run, known)
            elif known is None:
                waiting.append(run)
            else:
                self._report(run, known, fresh=False)
        if self._engine is not None:
            await self._engine.run(waiting, self._finish)
        else:
            await self._work_together(waiting)
        place = {question.id: number for number, question in enumerate(questions)}
        order = {name: number for number, name in enumerate([*self._graphs, *others])}
        return sorted(self._results, key=lambda one: (place[one["id"]], order[one["strategy"]]))

    def _plan(self, questions: Sequence[BenchmarkQuestion], strategies: Sequence[str]) -> list[Run]:
        """Every strategy on every distinct question, a question's strategies one after the other.

        So prompts with the same beginning come close together, for the engines' prefix caches.
        """
        distinct: dict[str, list[BenchmarkQuestion]] = {}
        for question in questions:
            try:
                key = question_key(question)
            except ImageError:
                key = f"unreadable {question.id}"  # the run itself says what is wrong
            distinct.setdefault(key, []).append(question)
        return [
            Run(strategy, tuple(same), key)
            for key, same in distinct.items()
            for strategy in strategies
        ]

    async def _work_together(self, waiting: Sequence[Run]) -> None:
        runs = iter(waiting)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._concurrency, len(waiting))):
                    workers.create_task(self._work(runs))
        except ExceptionGroup as group:  # what stopped one of them has stopped all
            raise group.exceptions[0] from None

    async def _work(self, runs: Iterator[Run]) -> None:
        for run in runs:
            question = run.questions[0]
            graph = self._graphs[run.strategy]
            result = await answered(graph, question.id, run.strategy, graph_input(question))
            self._finish(run, result, fresh=True)

    def _finish(self, run: Run, result: Result, *, fresh: bool) -> None:
        if self._store.fault is not None:  # to the run, this was a model that failed
            raise self._store.fault
        if result["error"] is None:
            self._store.add_result(run.strategy, run.key, result)
        self._report(run, result, fresh=fresh)

    def _report(self, run: Run, result: Result, *, fresh: bool) -> None:
        for own in self._keep(run, result):
            self._done += 1
            self._fresh += fresh
            if self._fresh == 1 and fresh:
                self._first = time.monotonic()
            seconds = time.monotonic() - self._first if self._fresh else 0.0
            self._on_progress(
                Progress(
                    result=own,
                    done=self._done,
                    fresh=self._fresh,
                    total=self._total,
                    seconds=seconds,
                )
            )

    def _keep(self, run: Run, result: Result) -> list[Result]:
        """The result, once for each question that is the same."""
        kept: list[Result] = [{**result, "id": question.id} for question in run.questions]
        self._results += kept
        return kept


async def answered(graph: Any, question_id: str, strategy: str, given: MAIInput) -> Result:
    """What a graph says to a question; its calls have the seconds that they took when made.

    Args:
        graph: A strategy's graph, made with `StoredModel`s.
        question_id: Names the question.
        strategy: Names the graph.
        given: The question.
    """
    seconds: Seconds = {}
    call_seconds.set(seconds)
    try:
        output = await graph.ainvoke(given)
    except Exception as error:  # noqa: BLE001  it is reported, and the others go on
        return failed(question_id, strategy, error)
    result = finished(question_id, strategy, output)
    for call in result["calls"]:
        call["seconds"] = seconds.get((call["role"], call["style"]), call["seconds"])
    return result
