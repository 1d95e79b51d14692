"""The floor: what a route would take if its model calls had the machine to themselves.

A call takes the time to its first token (the prompt prepared and computed, or what is new of it)
and, for each further token, a step of decoding. Both are measured on calls made alone, so that the
two direct calls of a run, which share the machine, are held against two that do not.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..models.pairs import Pair
from ..nodes.model_call import Agent, PromptStyle, task_messages
from ..nodes.prepare import read_task
from ..nodes.state import ModelCall, Role
from ..records.record import Record
from .speed_records import median_record
from .speed_runs import Question, Timed, forget

_DECODED = 33


@dataclass(frozen=True, slots=True)
class Rates:
    """Times of one model's calls about one question, in seconds.

    Attributes:
        first: To the first token of a direct answer, with nothing known of the prompt.
        reused: To the first token of the second call.
        decode: For each further token.
    """

    first: float
    reused: float
    decode: float

    def call_seconds(self, call: ModelCall) -> float:
        """What a call of so many output tokens takes alone."""
        begun = self.first if call["style"] == "direct" else self.reused
        return begun + max(0, (call["output_tokens"] or 1) - 1) * self.decode


def measure_rates(pair: Pair, question: Question) -> dict[Role, Rates]:
    """The times of both models' calls about a question, each made alone."""
    forget(pair)
    small, reasoning = _times(pair, "small", question, "")
    large, _ = _times(pair, "large", question, reasoning)
    return {"small": small, "large": large}


def floors(rates: Sequence[dict[Role, Rates]], timed: Sequence[Timed]) -> list[Record]:
    """The rates, each route's floor, and the wall time over it; one of each a question."""
    times: dict[str, list[float]] = defaultdict(list)
    for found, one in zip(rates, timed, strict=True):
        for role, own in found.items():
            times[f"first_token_ms.{role}"].append(1000 * own.first)
            times[f"first_token_ms.{role}.reused"].append(1000 * own.reused)
            times[f"decode_ms_per_token.{role}"].append(1000 * own.decode)
        seconds = _floor(found, one)
        times[f"floor_ms.{one.route}"].append(1000 * seconds)
        times[f"wall_over_floor.{one.route}"].append(one.seconds / seconds)
    return [
        median_record(name, values, "ratio" if name.startswith("wall") else "ms")
        for name, values in times.items()
    ]


def _floor(rates: dict[Role, Rates], timed: Timed) -> float:
    alone = [(call, rates[call["role"]].call_seconds(call)) for call in timed.calls]
    direct = [seconds for call, seconds in alone if call["style"] == "direct"]
    return max(direct) + sum(seconds for call, seconds in alone if call["style"] != "direct")


def _times(
    pair: Pair, role: Literal["small", "large"], question: Question, reasoning: str
) -> tuple[Rates, str]:
    """One model's times, and what it reasoned."""
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
    decode = max(0.0, whole - begun) / max(1, tokens - 1)
    return Rates(first, reused, decode), message.text


def _timed(model: Any, messages: Any, tokens: int) -> tuple[float, Any]:
    start = time.perf_counter()
    message = model.invoke(messages, max_tokens=tokens)
    return time.perf_counter() - start, message
