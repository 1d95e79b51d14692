"""Questions a second through a graph: one after the other, and all at once."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..nodes.state import MAIInput


@dataclass(frozen=True, slots=True)
class Round:
    """Several questions put to a graph.

    Attributes:
        results: What the graph returned, in order.
        seconds: From the first question to the last answer.
    """

    results: list[dict[str, Any]]
    seconds: float

    @property
    def rate(self) -> float:
        """Questions a second."""
        return len(self.results) / self.seconds

    @property
    def lost(self) -> int:
        """Questions without an answer, or with a call that failed."""
        return sum(
            not result["answer"] or any(call["error"] for call in result["calls"])
            for result in self.results
        )


def one_by_one(graph: Any, questions: Sequence[MAIInput]) -> Round:
    """Ask each question after the answer to the one before."""

    async def ask() -> Round:
        start = time.perf_counter()
        results = [await graph.ainvoke(question) for question in questions]
        return Round(results, time.perf_counter() - start)

    return asyncio.run(ask())


def all_at_once(graph: Any, questions: Sequence[MAIInput]) -> Round:
    """Ask all questions at the same time."""

    async def ask() -> Round:
        start = time.perf_counter()
        results = await graph.abatch(list(questions))
        return Round(results, time.perf_counter() - start)

    return asyncio.run(ask())
