"""Times strategies for real, warm and without a cache of calls: the one timer of all commands.

All strategies answer a question, or as many as run at a time, before any continues with the next:
what else the machine does then weighs on all alike, and so does its warming up. Who is first
changes from one to the next. Before each turn, decoded images are dropped, and models that keep
prefixes clear them, where they can; where not, `cached_tokens` shows what a strategy found there.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ...models.pairs import clear_caches
from ...nodes.state import ModelCall
from ..question import BenchmarkQuestion
from ..records import Record
from ..statistics import Estimate, mean, quantile, ratio
from .results import Result, answered, graph_input

TIMING_FILE = "timing.json"
TIMED_FILE = "timed.jsonl"

WARM_UP = 3
"""Questions that each strategy answers before it is timed."""

_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


@dataclass(slots=True)
class TimedRun:
    """One strategy's timed run over a set of questions.

    Attributes:
        strategy: Its name.
        results: A result for each question, in order; their calls' seconds are measured.
        question_seconds: The seconds of each question, in order.
        seconds: The sum over its turns, each from the first question to the last answer.
    """

    strategy: str
    results: list[Result] = field(default_factory=list)
    question_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0

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
    turn: int | None = None,
    on_answer: Callable[[TimedRun], None] = lambda _: None,
) -> list[TimedRun]:
    """Time each strategy on all questions, in turn.

    Args:
        graphs: Each strategy's graph, by name, without a cache of calls.
        questions: The questions.
        models: The models whose caches are cleared before each turn; that takes no time.
        concurrency: Questions at a time; 1 measures what one user waits for.
        turn: Questions of a turn; None for as many as run at a time.
        on_answer: Called with the run after each of its answers.
    """
    kept, size = list(models), turn or concurrency
    runs = [TimedRun(name) for name in graphs]

    async def time_all() -> None:
        for name, graph in graphs.items():  # all weights are loaded before the first is timed
            for question in questions[:WARM_UP]:
                await answered(graph, question.id, name, graph_input(question))
        for number, start in enumerate(range(0, len(questions), size)):
            first = number % len(runs)
            for run in chain(runs[first:], runs[:first]):
                clear_caches(kept)
                asked = questions[start : start + size]
                await _take_turn(run, graphs[run.strategy], asked, concurrency, on_answer)

    asyncio.run(time_all())
    return runs


async def _take_turn(
    run: TimedRun,
    graph: Any,
    questions: Sequence[BenchmarkQuestion],
    concurrency: int,
    on_answer: Callable[[TimedRun], None],
) -> None:
    running = asyncio.Semaphore(concurrency)

    async def answer(question: BenchmarkQuestion) -> tuple[Result, float]:
        async with running:
            start = time.perf_counter()
            result = await answered(graph, question.id, run.strategy, graph_input(question))
            seconds = time.perf_counter() - start
        on_answer(run)
        return result, seconds

    start = time.perf_counter()
    answers = await asyncio.gather(*map(answer, questions))
    run.seconds += time.perf_counter() - start
    run.results += [result for result, _ in answers]
    run.question_seconds += [seconds for _, seconds in answers]


def timing_records(runs: Sequence[TimedRun]) -> list[dict[str, Any]]:
    """Return all figures of strategies that were timed in one process.

    Returns:
        A strategy and the keys of a `Record`. The names:
        `total_seconds`; `seconds_per_question` (its mean), `.median` and `.p95`; `failed`;
        `calls`, `call_seconds` and the three kinds of tokens, each also as `NAME.ROLE.STYLE`; with
        a draft model, `accept_rate`; and `ratio.OTHER`, the strategy's seconds over those of
        another one on the same questions.
    """
    records = []
    for run in runs:
        figures = list(_figures(run))
        for other in runs:
            if other is not run:
                times = ratio(run.question_seconds, other.question_seconds)
                figures.append(Record.of(f"ratio.{other.strategy}", times, "ratio"))
        records += [{"strategy": run.strategy, **figure.as_dict()} for figure in figures]
    return records


def timed_lines(runs: Sequence[TimedRun]) -> Iterator[dict[str, Any]]:
    """Return each question's time, as `timed.jsonl` holds it."""
    for run in runs:
        for result, seconds in zip(run.results, run.question_seconds, strict=True):
            yield {
                "id": result["id"],
                "strategy": run.strategy,
                "seconds": seconds,
                "route": result["route"],
                "error": result["error"],
            }


def _figures(run: TimedRun) -> Iterator[Record]:
    seconds, questions = run.question_seconds, len(run.results)

    def exact(name: str, value: float | None, unit: str) -> Record:
        return Record.of(name, Estimate(value, None, None, questions), unit)

    yield exact("total_seconds", run.seconds, "s")
    yield Record.of("seconds_per_question", mean(seconds), "s")
    yield exact("seconds_per_question.median", quantile(seconds, 0.5), "s")
    yield exact("seconds_per_question.p95", quantile(seconds, 0.95), "s")
    yield exact("failed", sum(one["error"] is not None for one in run.results), "questions")
    drafted, accepted = (
        [float(sum(call.get(kind) or 0 for call in one["calls"])) for one in run.results]  # type: ignore[misc]
        for kind in ("drafted_tokens", "accepted_tokens")
    )
    if any(drafted):
        yield Record.of("accept_rate", ratio(accepted, drafted), "share")
    kinds = sorted({(call["role"], call["style"]) for call in run.calls})
    for kind in (None, *kinds):
        calls = [call for call in run.calls if kind in (None, (call["role"], call["style"]))]
        suffix = "".join(f".{part}" for part in kind or ())
        yield exact(f"calls{suffix}", len(calls), "calls")
        yield exact(f"call_seconds{suffix}", sum(call["seconds"] for call in calls), "s")
        for tokens in _TOKENS:
            counts: list[int | None] = [call[tokens] for call in calls]  # type: ignore[literal-required]
            known = [count for count in counts if count is not None]
            # A total of some calls only would look like that of all.
            total = sum(known) if len(known) == len(counts) else None
            yield exact(f"{tokens}{suffix}", total, "tokens")
