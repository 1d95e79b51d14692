"""Timed runs of a graph, each from a cold start of all caches."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ..demo.held_out import held_out
from ..models.pairs import Pair, clear_caches
from ..models.transformers.chat import ChatTransformers
from ..nodes.state import ModelCall

Question = Mapping[str, Any]
"""What a graph is invoked with: question, images, choices and answer type."""

_SEED = 41_414


@dataclass(frozen=True, slots=True)
class Timed:
    """A run with its time.

    Attributes:
        seconds: From the call of the graph to its answer.
        route: How far the run went.
        calls: Its model calls.
        cpu_seconds: Time that the process computed meanwhile, over all its threads: what other
            programs on the machine do not change much.
    """

    seconds: float
    route: str
    calls: list[ModelCall]
    cpu_seconds: float = 0.0

    @property
    def critical_path(self) -> float:
        """Seconds of the model calls that follow each other; of the two direct ones, the longer."""
        direct = [call["seconds"] for call in self.calls if _is_direct(call)]
        later = [call["seconds"] for call in self.calls if _is_later(call)]
        return max(direct, default=0.0) + sum(later)


def questions(folder: Path, count: int) -> list[Question]:
    """Questions about pictures of the demo world, drawn into a folder."""
    return [
        {
            "question": item.question.text,
            "images": [item.image],
            "choices": list(item.question.choices),
            "answer_type": item.question.answer_type,
        }
        for item in held_out(folder, count, seed=_SEED)
    ]


def run(graph: Any, question: Question, pair: Pair) -> Timed:
    """Ask one question, with nothing left of earlier ones."""
    forget(pair)
    start, cpu = time.perf_counter(), time.process_time()
    result = graph.invoke(dict(question))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Timed(seconds, result["route"], result["calls"], cpu)


async def run_many(
    graph: Any, asked: Sequence[Question], pair: Pair, at_once: int
) -> tuple[float, float]:
    """Ask many questions, at most so many at a time.

    Returns:
        Seconds a question until all are answered, and seconds of processor time a question.
    """
    forget(pair)
    places = asyncio.Semaphore(at_once)

    async def ask(question: Question) -> None:
        async with places:
            await graph.ainvoke(dict(question))

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(ask, asked))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return seconds / len(asked), cpu / len(asked)


async def run_one_by_one(
    graph: Any, asked: Sequence[Question], pair: Pair
) -> list[tuple[float, float]]:
    """Ask many questions one after the other, as `run_many` would.

    Returns:
        For every question, its seconds, and its seconds of processor time.
    """
    forget(pair)
    times = []
    for question in asked:
        start, cpu = time.perf_counter(), time.process_time()
        await graph.ainvoke(dict(question))
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return times


def forget(pair: Pair) -> None:
    """Empty the caches: decoded and prepared pictures, keys and values of earlier prompts."""
    clear_caches((pair.small, pair.large))


def with_settings(pair: Pair, **settings: Any) -> Pair:
    """The pair with other settings of both models, where they have them; the weights are shared."""
    models = [
        model.model_copy(update=settings) if isinstance(model, ChatTransformers) else model
        for model in (pair.small, pair.large)
    ]
    return Pair(pair.name, models[0], models[1], pair.prompts)


class InstantModel(BaseChatModel):
    """Answers at once, so that what is left of a run's time is the graph's own.

    Attributes:
        answer: What it answers, whatever is asked.
    """

    answer: str

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai-instant"

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: Any = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=self.answer))])


class DistantModel(BaseChatModel):
    """A model that keeps its caller waiting before it computes, as one on another device does.

    Attributes:
        model: Who answers.
        seconds: The wait, which costs this machine nothing.
    """

    model: BaseChatModel
    seconds: float

    @property
    def _llm_type(self) -> str:
        return "langgraph-mai-distant"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        time.sleep(self.seconds)
        message = self.model.invoke(messages, stop=stop, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _is_direct(call: ModelCall) -> bool:
    return call["style"] == "direct"


def _is_later(call: ModelCall) -> bool:
    return call["style"] in {"reason", "transfer"} and call["finish_reason"] != "cancelled"
