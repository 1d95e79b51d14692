"""Strategies of the demo pair on the clock, each from a cold start."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import PrivateAttr
from typing_extensions import override

from ..demo.held_out import HeldOut
from ..graph import STRATEGIES, create_strategy, unavailable
from ..models.pairs import clear_caches, load_pair
from ..nodes.state import MAIInput, ModelCall
from .latency import ROLES


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One question by one strategy.

    Attributes:
        strategy: Its name.
        seconds: Wall clock, from the call of the graph to its answer.
        answer: As people write it.
        route: The route that it took.
        calls: Its model calls, with their wall clock.
        processor_seconds: What the process computed meanwhile, over all its threads: what other
            programs on the machine change little.
        call_processor_seconds: The same of each call, by role and style.
    """

    strategy: str
    seconds: float
    answer: str
    route: Any
    calls: Sequence[ModelCall]
    processor_seconds: float = 0.0
    call_processor_seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def overhead(self) -> float:
        """Seconds that passed beside the calls; of the two direct ones, the longer counts."""
        direct = [call["seconds"] for call in self.calls if call["style"] == "direct"]
        others = [call["seconds"] for call in self.calls if call["style"] != "direct"]
        return self.seconds - max(direct, default=0.0) - sum(others)

    def by_processor(self) -> "TimedRun":
        """The same run, with the processor's time in place of the wall clock."""
        calls: list[Any] = [
            {**call, "seconds": self.call_processor_seconds[call["role"], call["style"]]}
            for call in self.calls
        ]
        return replace(self, seconds=self.processor_seconds, calls=calls)


class StrategyTimer:
    """Runs strategies of the demo pair, whose weights are loaded first.

    Attributes:
        names: The strategies that it can run.
    """

    def __init__(self, names: Sequence[str] = STRATEGIES) -> None:
        """Load the pair.

        Args:
            names: Strategies; those that the pair cannot do are left out.
        """
        pair = load_pair("demo")
        self._models: list[Any] = [pair.small, pair.large]
        for model in self._models:
            model.load()
        self._spent: dict[tuple[str, str], float] = {}
        clocked = [
            _Clocked(model, role, self._spent)
            for role, model in zip(ROLES, self._models, strict=True)
        ]
        self.names = tuple(name for name in names if not unavailable(name, *clocked))
        self._graphs: dict[str, Any] = {
            name: create_strategy(name, *clocked, prompts=pair.prompts) for name in self.names
        }

    def run(self, name: str, question: Mapping[str, Any], *, cold: bool = True) -> TimedRun:
        """Ask a question.

        Args:
            name: The strategy.
            question: As graphs take it.
            cold: Whether the models forget all earlier questions first.
        """
        if cold:
            clear_caches(self._models)
        self._spent.clear()
        begun, computed = time.perf_counter(), time.process_time()
        result = self._graphs[name].invoke(dict(question))
        seconds, spent = time.perf_counter() - begun, time.process_time() - computed
        return TimedRun(
            strategy=name,
            seconds=seconds,
            answer=result["answer"],
            route=result["route"],
            calls=result["calls"],
            processor_seconds=spent,
            call_processor_seconds=dict(self._spent),
        )


class _Clocked(  # type: ignore[no-redef]  # mypy: the base has a field named kwargs
    RunnableBindingBase[LanguageModelInput, AIMessage]
):
    """A model that notes what the process computes during its calls."""

    _role: str = PrivateAttr()
    _spent: dict[tuple[str, str], float] = PrivateAttr()

    def __init__(
        self, model: BaseChatModel, role: str, spent: dict[tuple[str, str], float]
    ) -> None:
        super().__init__(bound=model)
        self._role = role
        self._spent = spent

    @override
    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        style = str(((config or {}).get("metadata") or {}).get("mai_style", ""))
        computed = time.process_time()
        try:
            return self.bound.invoke(input, config, **kwargs)
        finally:
            self._spent[self._role, style] = time.process_time() - computed


def graph_input(item: HeldOut) -> MAIInput:
    """A question of the demo world as graphs take it."""
    return {
        "question": item.question.text,
        "images": [item.image],
        "choices": list(item.question.choices),
        "answer_type": item.question.answer_type,
    }
