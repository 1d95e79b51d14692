"""Measures attention on a benchmark: both models reason, and the large one reads each reasoning."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...configs import PromptsConfig
from ...models.pairs import Pair
from ...nodes.model_call import Agent
from ...nodes.prepare import read_task
from ...nodes.reasoning import cut_reasoning
from ...nodes.state import RunState
from ..evaluation.call_store import CallStore
from ..evaluation.evaluate import claim
from ..evaluation.pace import Pace
from ..evaluation.results import Result, graph_input
from ..evaluation.runner import OnProgress, Runner
from ..evaluation.shared_calls import SharedCalls
from ..evaluation.stored_pair import StoredPair
from ..question import Benchmark, BenchmarkQuestion
from .measured_pass import MeasuredPass
from .passes import MeasuredPasses, attention_source

Source = Literal["small", "large"]
"""Whose reasoning the large model reads."""

SOURCES: tuple[Source, ...] = ("small", "large")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the large model attended to in one reasoning.

    Attributes:
        question: What was asked.
        source: Who reasoned.
        measured: What the pass said.
    """

    question: BenchmarkQuestion
    source: Source
    measured: MeasuredPass


@dataclass(frozen=True, slots=True)
class Failure:
    """A reasoning that could not be had or read.

    Attributes:
        id: The question's.
        source: Who was to reason.
        error: One sentence.
    """

    id: str
    source: Source
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProgress(Pace):
    """How far the passes are, at the moment that one came.

    Attributes:
        id: The question's.
        source: Who reasoned.
        error: Why the pass failed, if it did.
    """

    id: str
    source: Source
    error: str | None


OnPass = Callable[[PassProgress], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of measuring.

    Attributes:
        readings: In the questions' order, the small model's reasoning first.
        failures: What is missing among them.
        models: What tells the models from others, by role.
        attends: Who gave the attention: "large", "small" or "selector".
        calls_made: Model calls and passes that this run made.
    """

    readings: list[Reading]
    failures: list[Failure]
    models: dict[str, dict[str, Any]]
    attends: str
    calls_made: int


async def measure(
    benchmark: Benchmark,
    pair: Pair,
    folder: Path,
    *,
    prompts: PromptsConfig,
    share: float,
    concurrency: int = 8,
    on_stored: Callable[[int], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
    on_pass: OnPass = lambda _: None,
) -> Measured:
    """Let both models reason, and read the large one's attention on each reasoning.

    Args:
        benchmark: The questions.
        pair: The models.
        folder: Holds the store of calls and passes; an evaluation of the same benchmark, pair and
            wording shares it.
        prompts: The wording.
        share: Share of the attention whose tokens are counted.
        concurrency: Calls at a time.
        on_stored: Called once, with the number of calls that are stored already.
        on_progress: Called with every reasoning.
        on_pass: Called with every pass.

    Raises:
        ConfigError: The pair gives no attention, or the folder belongs to something else.
        ModelError: A model's weights cannot be found.
    """
    source, identity = attention_source(pair)
    with CallStore(folder) as store:
        models = claim(store, benchmark, pair, prompts)
        on_stored(sum(store.count_calls().values()))
        calls = SharedCalls(store)
        names = [f"{one}_reason" for one in SOURCES]
        stored = StoredPair.of(pair, calls, models, names)
        graphs = {name: stored.graph(name, prompts) for name in names}
        runner = Runner(graphs, store, concurrency=concurrency, on_progress=on_progress)
        results = await runner.run(benchmark.questions)
        passes = MeasuredPasses(
            Agent("large", pair.large, prompts),
            source,
            models[identity],
            calls,
            share=share,
            query=pair.sparse.query,
        )
        wanted = _reasonings(benchmark.questions, results)
        made = await _Reader(passes, concurrency, on_pass).read(wanted)
        if store.fault is not None:
            raise store.fault
        return Measured(
            readings=[one for one in made if isinstance(one, Reading)],
            failures=[one for one in made if isinstance(one, Failure)],
            models=models,
            attends=identity,
            calls_made=stored.made + passes.made,
        )


def reasoning_text(result: Result) -> str:
    """The reasoning of a run that only reasons, as it would be handed over: without its loop."""
    call = result["calls"][-1]
    return cut_reasoning(call["text"], call["finish_reason"]).text


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A reasoning to be read; `error` says why there is none."""

    question: BenchmarkQuestion
    source: Source
    reasoning: str
    error: str | None


def _reasonings(questions: Sequence[BenchmarkQuestion], results: Sequence[Result]) -> list[_Wanted]:
    found = {(one["id"], one["strategy"]): one for one in results}
    wanted = []
    for question in questions:
        for source in SOURCES:
            result = found[question.id, f"{source}_reason"]
            error = result["error"]
            text = "" if error else reasoning_text(result)
            wanted.append(_Wanted(question, source, text, error))
    return wanted


class _Reader:
    """Makes passes, several at a time, and tells each as it comes."""

    def __init__(self, passes: MeasuredPasses, concurrency: int, on_pass: OnPass) -> None:
        self._passes = passes
        self._concurrency = concurrency
        self._on_pass = on_pass
        self._done = 0
        self._fresh = 0
        self._first = 0.0

    async def read(self, wanted: Sequence[_Wanted]) -> list[Reading | Failure]:
        """What came of each, in order."""
        made: list[Reading | Failure | None] = [None] * len(wanted)
        numbers = iter(range(len(wanted)))

        async def work(numbers: Iterator[int]) -> None:
            for number in numbers:
                made[number], fresh = await self._read(wanted[number])
                self._tell(wanted[number], made[number], len(wanted), fresh=fresh)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._concurrency, len(wanted))):
                workers.create_task(work(numbers))
        return [one for one in made if one is not None]

    async def _read(self, wanted: _Wanted) -> tuple[Reading | Failure, bool]:
        error = wanted.error
        if error is None:
            try:
                state: RunState = {**graph_input(wanted.question)}  # type: ignore[typeddict-item]
                task = await asyncio.to_thread(read_task, state)
                measured, fresh = await self._passes.measure(task, wanted.reasoning)
                return Reading(wanted.question, wanted.source, measured), fresh
            except Exception as failed:  # noqa: BLE001  it is reported, and the others go on
                error = " ".join(str(failed).split()) or type(failed).__name__
        return Failure(wanted.question.id, wanted.source, error), False

    def _tell(
        self, wanted: _Wanted, made: Reading | Failure | None, total: int, *, fresh: bool
    ) -> None:
        self._done += 1
        self._fresh += fresh
        if self._fresh == 1 and fresh:
            self._first = time.monotonic()
        self._on_pass(
            PassProgress(
                id=wanted.question.id,
                source=wanted.source,
                # One that could not be had was told as a reasoning.
                error=made.error if isinstance(made, Failure) and not wanted.error else None,
                done=self._done,
                fresh=self._fresh,
                total=total,
                seconds=time.monotonic() - self._first if self._fresh else 0.0,
            )
        )
