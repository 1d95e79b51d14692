"""Runs strategies for real, warm and without a store, and says how long they take.

All strategies answer a question, or as many as are asked at a time, before any goes on to the
next: what else the machine does then weighs on all alike, and so does its warming up. Who is first
changes from one to the next. Before each turn, prepared pictures are dropped, and models that keep
prompts forget them, where they can be told to; where not, `cached_tokens` shows what a strategy
found there.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...models.pairs import clear_caches
from ...nodes.state import MAIInput, ModelCall
from ..question import BenchmarkQuestion
from .results import Result, failed, finished, graph_input

WARM_UP = 3
"""Questions that each strategy answers before it is timed."""

OnAnswer = Callable[["TimedRun", int, int], None]


class TimedRun:
    """One strategy's timed run over a set of questions.

    Attributes:
        strategy: Its name.
        results: A result for each question, in order; their calls' seconds are measured.
        question_seconds: How long each question took, in order.
        seconds: The sum over its turns, each from the first question to the last answer.
    """

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        self.results: list[Result] = []
        self.question_seconds: list[float] = []
        self.seconds = 0.0

    @property
    def calls(self) -> list[ModelCall]:
        """Every model call, in the order of the questions."""
        return [call for result in self.results for call in result["calls"]]


def time_strategies(
    graphs: Mapping[str, Any],
    questions: Sequence[BenchmarkQuestion],
    *,
    models: Iterable[object] = (),
    concurrency: int = 1,
    on_answer: OnAnswer = lambda *_: None,
) -> list[TimedRun]:
    """Time each strategy on all questions, in turn.

    Args:
        graphs: Each strategy's graph, by name, with models that are not stored.
        questions: What is asked.
        models: The models, to make them forget prompts before each turn; that takes no time.
        concurrency: Questions at a time, and in a turn; 1 measures what one user waits for.
        on_answer: Called after every answer with the run, and how many of how many are there.
    """
    kept = list(models)
    runs = [TimedRun(name) for name in graphs]

    def take_turns() -> Iterator[tuple[TimedRun, Sequence[BenchmarkQuestion]]]:
        for number, start in enumerate(range(0, len(questions), concurrency)):
            first = number % len(runs)
            for run in [*runs[first:], *runs[:first]]:
                yield run, questions[start : start + concurrency]

    async def time_all() -> None:
        for graph in graphs.values():  # all weights are loaded before the first is timed
            for question in questions[:WARM_UP]:
                await _answer(graph, graph_input(question))
        for run, asked in take_turns():
            clear_caches(kept)
            await _time(run, graphs[run.strategy], asked)
            for done in range(len(run.results) - len(asked), len(run.results)):
                on_answer(run, done + 1, len(questions))

    asyncio.run(time_all())
    return runs


async def _time(run: TimedRun, graph: Any, questions: Sequence[BenchmarkQuestion]) -> None:
    """One turn: ask all at once, and note what came of it."""

    async def ask(question: BenchmarkQuestion) -> tuple[Result, float]:
        start = time.perf_counter()
        output = await _answer(graph, graph_input(question))
        seconds = time.perf_counter() - start
        if isinstance(output, Exception):
            return failed(question.id, run.strategy, output), seconds
        return finished(question.id, run.strategy, output), seconds

    start = time.perf_counter()
    answered = await asyncio.gather(*map(ask, questions))
    run.seconds += time.perf_counter() - start
    run.results += [result for result, _ in answered]
    run.question_seconds += [seconds for _, seconds in answered]


async def _answer(graph: Any, given: MAIInput) -> Any:
    """The graph's output, or what it raised: a failure takes its time too."""
    try:
        return await graph.ainvoke(given)
    except Exception as error:  # noqa: BLE001  it is reported, and the others go on
        return error
