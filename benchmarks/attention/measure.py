"""Measures attention: both models reason, and the large one's attention on each is read.

A pass is stored reduced: token by token for the mean over heads only, and head by head as figures.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from ...configs import ConfigError, PromptsConfig
from ...models.attention import Attention
from ...models.capabilities import SupportsAttention
from ...models.pairs import Pair
from ...nodes.caller import AttentionPass
from ...nodes.model_call import Agent, agent_request
from ...nodes.prepare import read_task
from ...nodes.reasoning import cut_reasoning
from ...nodes.sparse_transfer import (
    TokenGroup,
    count_tokens,
    read_token_groups,
    smallest_set,
)
from ...nodes.state import RunState
from ..evaluation.results import Result, graph_input
from ..evaluation.runner import OnResult, Pace, StrategyGraphs, run_here, run_strategies
from ..evaluation.store import EvaluationStore, current_question, question_content
from ..question import Benchmark, BenchmarkQuestion

Source = Literal["small", "large"]
"""Whose reasoning the large model reads."""

SOURCES: tuple[Source, ...] = ("small", "large")

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPass:
    """The attention on a reasoning, reduced.

    Attributes:
        reasoning: The reasoning, without white space around it.
        attention: The attention in the mean over heads, all layers.
        head_totals: The attention on all tokens of the reasoning together, shape (layers, heads);
            empty if the source tells no single heads.
        head_tokens: How many tokens hold the share of it, same shape.
    """

    reasoning: str
    attention: Attention
    head_totals: Rows
    head_tokens: Rows

    @classmethod
    def of(cls, reasoning: str, attention: Attention, share: float) -> Self:
        """Reduce a pass.

        Args:
            reasoning: The reasoning that was read.
            attention: What a pass over all layers gave, head by head if it can.
            share: Share of the attention whose tokens are counted.

        Raises:
            ValueError: Attention that is not a number, or a reasoning without tokens.
        """
        totals, tokens = [], []
        for layer in attention.heads if attention.heads is not None else ():
            groups = [_groups(reasoning, attention, weights) for weights in layer]
            totals.append(tuple(_total(attention, weights) for weights in layer))
            counts = (count_tokens(one, smallest_set(one, share)) for one in groups)
            tokens.append(tuple(map(float, counts)))
        made = cls(reasoning, replace(attention, heads=None), tuple(totals), tuple(tokens))
        if not made.groups(attention.layers[0]):
            raise ValueError("the reasoning has no tokens")
        return made

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers, 1 for the first."""
        return self.attention.layers

    def groups(self, layer: int) -> list[TokenGroup]:
        """Return the tokens with their attention at a layer, in the mean over heads.

        Args:
            layer: 1 for the first.

        Raises:
            ValueError: The attention is not a number, or the layer was not read.
        """
        weights = self.attention.weights[self.layers.index(layer)]
        return _groups(self.reasoning, self.attention, weights)

    def total(self, layer: int) -> float:
        """Return the attention on the reasoning at a layer, in the mean over heads.

        Args:
            layer: 1 for the first.

        Returns:
            A share of the layer's attention on the whole prompt, special tokens left aside.

        Raises:
            ValueError: The layer was not read.
        """
        return _total(self.attention, self.attention.weights[self.layers.index(layer)])

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "reasoning": self.reasoning,
            "attention": self.attention.as_dict(),
            "head_totals": [list(row) for row in self.head_totals],
            "head_tokens": [list(row) for row in self.head_tokens],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `as_dict` returned, also after JSON."""
        return cls(
            reasoning=values["reasoning"],
            attention=Attention.from_dict(values["attention"]),
            head_totals=tuple(map(tuple, values["head_totals"])),
            head_tokens=tuple(map(tuple, values["head_tokens"])),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What the large model attended to in one reasoning.

    Attributes:
        question: The question.
        source: Who reasoned.
        measured: The pass.
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


OnPass = Callable[[Pace, str, str | None], None]
"""Called with how far it is, whose reasoning was read, and why that failed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of measuring.

    Attributes:
        readings: In the questions' order, the small model's reasoning first.
        failures: What is missing among them.
        answers: The results of the strategies that were run besides, if any.
        models: Identities of the models, by role.
        attends: Who gave the attention: "large", "small" or "selector".
        calls_made: Model calls and passes that this run made.
    """

    readings: list[Reading]
    failures: list[Failure]
    answers: list[Result]
    models: dict[str, dict[str, Any]]
    attends: str
    calls_made: int


def measure(
    benchmark: Benchmark,
    pair: Pair,
    folder: Path,
    *,
    prompts: PromptsConfig,
    share: float,
    answers: Callable[[int], Sequence[str]] = lambda _: (),
    concurrency: int = 8,
    on_stored: Callable[[int], None] = lambda _: None,
    on_result: OnResult = lambda *_: None,
    on_pass: OnPass = lambda *_: None,
) -> Measured:
    """Let both models reason, and read the large one's attention on each reasoning.

    Args:
        benchmark: The questions.
        pair: The models.
        folder: Holds the store of calls and passes; an evaluation of the same benchmark, pair and
            wording shares it.
        prompts: The wording.
        share: Share of the attention whose tokens are counted.
        answers: From the number of layers to strategies that are then run on every question.
        concurrency: Calls at a time.
        on_stored: Called once, with the number of calls that are stored already.
        on_result: Called with every result of a strategy; reasoning is one.
        on_pass: Called with every pass.

    Raises:
        ConfigError: The pair gives no attention, or the folder belongs to something else.
        ModelError: A model's weights cannot be found.
    """
    source, attends = attention_source(pair)
    with EvaluationStore(folder) as store:
        models = store.claim(benchmark, pair, prompts)
        on_stored(store.count())

        async def run(names: Sequence[str]) -> list[Result]:
            graphs = StrategyGraphs(pair, names, prompts, store)
            engine = partial(run_here, graphs=graphs, concurrency=concurrency)
            found = await run_strategies(benchmark.questions, names, store, engine, on_result)
            return [one for one in found if one["strategy"] in names]

        async def run_all() -> tuple[list[Reading | Failure], list[Result]]:
            agent = Agent("large", pair.large, prompts)
            reader = _Reader(agent, source, store, share, pair.sparse.query)
            reasoned = await run([f"{one}_reason" for one in SOURCES])
            made = await reader.read_all(benchmark.questions, reasoned, concurrency, on_pass)
            layers = next((len(one.measured.layers) for one in made if isinstance(one, Reading)), 0)
            names = answers(layers) if layers else ()
            return made, await run(names) if names else []

        made, answered = asyncio.run(run_all())
        return Measured(
            readings=[one for one in made if isinstance(one, Reading)],
            failures=[one for one in made if isinstance(one, Failure)],
            answers=answered,
            models=models,
            attends=attends,
            calls_made=store.stored,
        )


def attention_source(pair: Pair) -> tuple[SupportsAttention, str]:
    """Return who gives the attention of a pair's large model, and that one's role.

    Returns:
        The pair's selector, if it has one, else the large model; and "small", "large" or
        "selector".

    Raises:
        ConfigError: Neither gives attention.
    """
    source: object = pair.large if pair.selector is None else pair.selector
    if not isinstance(source, SupportsAttention):
        raise ConfigError(
            f"The large model of the pair {pair.name!r} ({type(pair.large).__name__}) gives no "
            "attention: name a copy of it that transformers runs as `selector` in the pair file, "
            "or use a pair whose large model transformers runs."
        )
    if pair.selector is None:
        return source, "large"
    return source, "selector" if "selector" in pair.models() else "small"


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the attention on reasonings, each pass made once.

    Attributes:
        agent: The large model; its prompts are those of full transfer.
        source: Who gives the attention.
        store: Where passes are stored.
        share: Share of the attention whose tokens are counted head by head.
        query: Position whose attention is read, as in `SparseTransfer`.
    """

    agent: Agent
    source: SupportsAttention
    store: EvaluationStore
    share: float
    query: int

    async def read_all(
        self,
        questions: Sequence[BenchmarkQuestion],
        results: Sequence[Result],
        concurrency: int,
        on_pass: OnPass,
    ) -> list[Reading | Failure]:
        """Read both models' reasonings on every question, in order."""
        found = {(one["id"], one["strategy"]): one for one in results}
        pace = Pace(len(questions) * len(SOURCES))
        free = asyncio.Semaphore(concurrency)

        async def read(question: BenchmarkQuestion, source: Source) -> Reading | Failure:
            result = found[question.id, f"{source}_reason"]
            async with free:
                made, cached = await self._read(question, source, result)
            if self.store.problem is not None:
                raise self.store.problem
            pace.advance(fresh=not cached)
            if not result["error"]:  # a reasoning that failed was told as one
                error = made.error if isinstance(made, Failure) else None
                on_pass(pace, f"{question.id}, {source} reasoning", error)
            return made

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(read(question, source))
                for question in questions
                for source in SOURCES
            ]
        return [task.result() for task in tasks]

    async def _read(
        self, question: BenchmarkQuestion, source: Source, result: Result
    ) -> tuple[Reading | Failure, bool]:
        """Read a model's reasoning, and tell whether the pass was stored already."""
        if result["error"] is not None:
            return Failure(question.id, source, result["error"]), True
        try:
            measured, cached = await self._measure(question, _reasoning(result))
            return Reading(question, source, measured), cached
        except Exception as failed:  # noqa: BLE001  it is reported, and the others continue
            error = " ".join(str(failed).split()) or type(failed).__name__
            return Failure(question.id, source, error), True

    async def _measure(
        self, question: BenchmarkQuestion, reasoning: str
    ) -> tuple[MeasuredPass, bool]:
        if not reasoning:
            raise ValueError("the reasoning is empty")
        current_question.set(await asyncio.to_thread(question_content, question))
        state: RunState = {**graph_input(question)}  # type: ignore[typeddict-item]
        task = await asyncio.to_thread(read_task, state)
        prompt = await asyncio.to_thread(agent_request, self.agent, "transfer", task, reasoning)
        key = AttentionPass(self.source, prompt, None, self.query).key(self.store)

        async def make() -> dict[str, Any]:
            found = await self.source.aattention(
                prompt.messages,
                prompt.span or (0, 0),
                layers="all",
                query=self.query,
                heads=True,
                timeout=prompt.timeout,
            )
            made = await asyncio.to_thread(MeasuredPass.of, reasoning, found, self.share)
            return made.as_dict()

        value, cached = await self.store.acall(f"{key} by head {self.share}", make)
        return MeasuredPass.from_dict(value), cached


def _reasoning(result: Result) -> str:
    """Return the reasoning of a run that only reasons, as it is transferred: without its loop."""
    call = result["calls"][-1]
    return cut_reasoning(call["text"], call["finish_reason"]).text.strip()


def _total(attention: Attention, weights: Any) -> float:
    pairs = zip(weights, attention.special, strict=True)
    return float(sum(float(one) for one, skip in pairs if not skip))


def _groups(reasoning: str, attention: Attention, weights: Any) -> list[TokenGroup]:
    return read_token_groups(len(reasoning), attention.spans, attention.special, weights)
