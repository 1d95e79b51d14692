"""Strategies of the demo pair on the clock, each from a cold start."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..demo.held_out import HeldOut
from ..graph import STRATEGIES, create_strategy, unavailable
from ..models.cold_start import forget
from ..models.pairs import load_pair
from ..nodes.state import MAIInput, ModelCall


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One question by one strategy.

    Attributes:
        strategy: Its name.
        seconds: Wall clock, from the call of the graph to its answer.
        answer: As people write it.
        route: The route that it took.
        calls: Its model calls.
    """

    strategy: str
    seconds: float
    answer: str
    route: Any
    calls: list[ModelCall]

    @property
    def overhead(self) -> float:
        """Seconds that passed beside the calls; of the two direct ones, the longer counts."""
        direct = [call["seconds"] for call in self.calls if call["style"] == "direct"]
        others = [call["seconds"] for call in self.calls if call["style"] != "direct"]
        return self.seconds - max(direct, default=0.0) - sum(others)


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
        small: Any = pair.small
        large: Any = pair.large
        self._models = (small, large)
        for model in self._models:
            model.load()
        self.names = tuple(name for name in names if not unavailable(name, *self._models))
        self._graphs: dict[str, Any] = {
            name: create_strategy(name, *self._models, prompts=pair.prompts) for name in self.names
        }

    def run(self, name: str, question: Mapping[str, Any], *, cold: bool = True) -> TimedRun:
        """Ask a question.

        Args:
            name: The strategy.
            question: As graphs take it.
            cold: Whether the models forget all earlier questions first.
        """
        if cold:
            forget(self._models)
        begun = time.perf_counter()
        result = self._graphs[name].invoke(dict(question))
        seconds = time.perf_counter() - begun
        return TimedRun(name, seconds, result["answer"], result["route"], result["calls"])


def graph_input(item: HeldOut) -> MAIInput:
    """A question of the demo world as graphs take it."""
    return {
        "question": item.question.text,
        "images": [item.image],
        "choices": list(item.question.choices),
        "answer_type": item.question.answer_type,
    }
