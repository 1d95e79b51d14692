"""The floor: what a route would take if its model calls had the machine to themselves.

A call takes the time to its first token (the prompt prepared and computed, or what is new of it)
and, for each further token, a step of decoding. Both are measured on calls made alone, so that the
two direct calls of a run, which share the machine, are held against two that do not.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from ..models.pairs import Pair
from ..nodes.model_call import Agent, PromptStyle, task_messages
from ..nodes.prepare import read_task
from ..nodes.state import ModelCall
from .speed_records import Record, median_record
from .speed_runs import Question, Timed, forget

_QUESTIONS = 12
_DECODED = 33


@dataclass(frozen=True, slots=True)
class Rates:
    """Times of one model's calls, in seconds, one entry a question.

    Attributes:
        first: To the first token of a direct answer, with nothing known of the prompt.
        reused: To the first token of the second call about the same question.
        decode: For each further token.
    """

    first: list[float]
    reused: list[float]
    decode: list[float]

    def call_seconds(self, call: ModelCall) -> float:
        """What a call of so many output tokens takes alone."""
        begun = self.first if call["style"] == "direct" else self.reused
        return median(begun) + max(0, (call["output_tokens"] or 1) - 1) * median(self.decode)


def measure_rates(pair: Pair, asked: Sequence[Question]) -> dict[str, Rates]:
    """The times of both models' calls, each made alone."""
    roles: tuple[Literal["small", "large"], ...] = ("small", "large")
    rates: dict[str, Rates] = {role: Rates([], [], []) for role in roles}
    for question in asked[:_QUESTIONS]:
        forget(pair)
        reasoning = ""
        for role in roles:
            seconds, written = _times(pair, role, question, reasoning)
            reasoning = reasoning or written
            for times, value in zip(
                (rates[role].first, rates[role].reused, rates[role].decode), seconds, strict=True
            ):
                times.append(value)
    return rates


def floors(rates: dict[str, Rates], timed: Sequence[Timed]) -> list[Record]:
    """The rates, each route's floor, and the wall time over it."""
    records = []
    for role, found in rates.items():
        for name, times in (
            (f"first_token_ms.{role}", found.first),
            (f"first_token_ms.{role}.reused", found.reused),
            (f"decode_ms_per_token.{role}", found.decode),
        ):
            records.append(median_record(name, [1000 * value for value in times], "ms"))
    lowest: dict[str, list[float]] = defaultdict(list)
    above: dict[str, list[float]] = defaultdict(list)
    for one in timed:
        seconds = _floor(rates, one)
        lowest[one.route].append(1000 * seconds)
        above[one.route].append(one.seconds / seconds)
    for route, floor_ms in lowest.items():
        records.append(median_record(f"floor_ms.{route}", floor_ms, "ms"))
        records.append(median_record(f"wall_over_floor.{route}", above[route], "ratio"))
    return records


def _floor(rates: dict[str, Rates], timed: Timed) -> float:
    alone = [(call, rates[call["role"]].call_seconds(call)) for call in timed.calls]
    direct = [seconds for call, seconds in alone if call["style"] == "direct"]
    return max(direct) + sum(seconds for call, seconds in alone if call["style"] != "direct")


def _times(
    pair: Pair, role: Literal["small", "large"], question: Question, reasoning: str
) -> tuple[tuple[float, float, float], str]:
    """Seconds to the first token, to that of a second call, and a token; and what was reasoned."""
    model = getattr(pair, role)
    agent = Agent(role, model, pair.prompts)
    task = read_task(dict(question))  # type: ignore[arg-type]
    second: PromptStyle = "transfer" if reasoning else "reason"
    direct = task_messages(agent, "direct", task)
    later = task_messages(agent, second, task, reasoning)
    reasons = task_messages(agent, "reason", task)
    first, _ = _timed(model, direct, 1)
    reused, _ = _timed(model, later, 1)
    _timed(model, reasons, 1)
    begun, _ = _timed(model, reasons, 1)
    whole, message = _timed(model, reasons, _DECODED)
    tokens = (message.usage_metadata or {}).get("output_tokens", _DECODED)
    return (first, reused, max(0.0, whole - begun) / max(1, tokens - 1)), message.text


def _timed(model: Any, messages: Any, tokens: int) -> tuple[float, Any]:
    start = time.perf_counter()
    message = model.invoke(messages, max_tokens=tokens)
    return time.perf_counter() - start, message
