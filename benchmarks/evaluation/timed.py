"""Runs strategies for real, warm and without a store, and says how long they take.

Several strategies run in turn in one process, so that ratios of their times come from one run.
Between two of them, prepared pictures are dropped, and models that keep prompts forget them, where
they can be told to; where not, `cached_tokens` shows what a strategy found there.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...models.cold_start import forget
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
        seconds: From the first question to the last answer.
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
    """Time each strategy on all questions, one strategy after the other.

    Args:
        graphs: Each strategy's graph, by name, with models that are not stored.
        questions: What is asked.
        models: The models, to make them forget prompts before each strategy.
        concurrency: Questions at a time; 1 measures what one user waits for.
        on_answer: Called after every answer with the run, and how many of how many are there.
    """
    inputs = [graph_input(question) for question in questions]

    kept = list(models)

    async def run() -> list[TimedRun]:
        for graph in graphs.values():  # all weights are loaded before the first is timed
            for given in inputs[:WARM_UP]:
                await _answer(graph, given)
        runs = []
        for name, graph in graphs.items():
            forget(kept)
            runs.append(await _time(name, graph, questions, concurrency, on_answer))
        return runs

    return asyncio.run(run())


async def _time(
    strategy: str,
    graph: Any,
    questions: Sequence[BenchmarkQuestion],
    concurrency: int,
    on_answer: OnAnswer,
) -> TimedRun:
    run = TimedRun(strategy)
    seats = asyncio.Semaphore(concurrency)
    done = 0

    async def ask(question: BenchmarkQuestion) -> tuple[Result, float]:
        nonlocal done
        async with seats:
            start = time.perf_counter()
            output = await _answer(graph, graph_input(question))
            seconds = time.perf_counter() - start
        done += 1
        on_answer(run, done, len(questions))
        if isinstance(output, Exception):
            return failed(question.id, strategy, output), seconds
        return finished(question.id, strategy, output), seconds

    start = time.perf_counter()
    answered = await asyncio.gather(*map(ask, questions))
    run.seconds = time.perf_counter() - start
    run.results = [result for result, _ in answered]
    run.question_seconds = [seconds for _, seconds in answered]
    return run


async def _answer(graph: Any, given: MAIInput) -> Any:
    """The graph's output, or what it raised: a failure takes its time too."""
    try:
        return await graph.ainvoke(given)
    except Exception as error:  # noqa: BLE001  it is reported, and the others go on
        return error
