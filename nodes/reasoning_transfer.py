"""Reasoning transfer: a model reads a finished reasoning and answers directly.

With one model as source and target it is two-stage; it is the same step. A transfer function that
fails costs no answer: the model is not asked, and the failure is recorded as that of its call.
A reasoning that the target's context has no room for is shortened from its front.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from ..configs import ConfigError
from .model_call import Agent, aask, ask, record
from .own_function import check_function, failure, refuse_awaitable
from .reasoning import cut_reasoning
from .request import Reply
from .shortening import Shortening
from .state import ModelCall, Role, RunState, Task
from .step import ModelStep, Update, emit

Transfer = Literal["full"] | Callable[[str], str]


def check_transfer(transfer: Any) -> None:
    """Refuse what says not how a reasoning is handed over.

    Raises:
        ConfigError: Neither "full" nor a function, or an async function.
    """
    if transfer == "full":
        return
    if not callable(transfer):
        raise ConfigError(
            f'`transfer` must be "full" or a function from a reasoning to a text, not {transfer!r}.'
        )
    check_function(transfer, "transfer")


def reasoning_transfer(source: Role, target: Agent, transfer: Transfer = "full") -> ModelStep:
    """Make the step.

    Args:
        source: Whose reasoning is read; the state holds it.
        target: Who reads it and answers, in style S.
        transfer: "full", or a function from the reasoning to what is handed over of it.
    """
    source_key: Literal["small_reason", "large_reason"] = (
        "small_reason" if source == "small" else "large_reason"
    )
    key = f"{target.role}_transfer"

    def wanted(state: RunState) -> Transfer:
        return state["task"].get("settings", {}).get("transfer", transfer)

    def quotes(state: RunState) -> str:
        call = state.get(source_key)
        return _handed_over(call, wanted(state)).text if call else ""

    def announce(call: ModelCall, text: str, cut: str | None) -> None:
        emit(
            {
                "event": "reasoning_transfer",
                "source": source,
                "target": target.role,
                "cut": cut,
                "characters": len(text),
                "characters_written": len(call["text"]),
            }
        )

    def hand_over(state: RunState) -> "_HandedOver | ModelCall | None":
        """What is handed over; a failed call if that cannot be; None without a reasoning."""
        call = state[source_key]
        if call is None or not call["text"].strip():
            return None
        handed = _handed_over(call, wanted(state))
        announce(call, handed.text, call["cut"])
        if handed.error:
            reply = Reply(0.0, error=handed.error)
            return record(target.role, "transfer", reply, state["task"])
        return handed

    def shortened(state: RunState, reasoning: Shortening, reply: Reply) -> bool:
        """Whether the model is asked again, with the end of the reasoning only."""
        call = state[source_key]
        if call is None or not reasoning.shorten(reply.too_long):
            return False
        announce(call, reasoning.text, "front")
        return True

    def run(state: RunState, config: RunnableConfig) -> Update:
        handed = hand_over(state)
        if not isinstance(handed, _HandedOver):
            return {key: handed}
        reasoning, replies = Shortening(handed.text), list[Reply]()
        while not replies or shortened(state, reasoning, replies[-1]):
            replies.append(ask(target, "transfer", state["task"], config, reasoning.text))
        return {key: _record(target.role, replies, state["task"])}

    async def arun(state: RunState, config: RunnableConfig) -> Update:
        handed = await asyncio.to_thread(hand_over, state)
        if not isinstance(handed, _HandedOver):
            return {key: handed}
        reasoning, replies = Shortening(handed.text), list[Reply]()
        while not replies or shortened(state, reasoning, replies[-1]):
            replies.append(await aask(target, "transfer", state["task"], config, reasoning.text))
        return {key: _record(target.role, replies, state["task"])}

    return ModelStep("reasoning_transfer", target, "transfer", run, arun, quotes=quotes)


def _record(role: Role, replies: list[Reply], task: Task) -> ModelCall:
    """The record of the last of several tries, each with less of the reasoning."""
    seconds = sum(reply.seconds for reply in replies)
    call = record(role, "transfer", replace(replies[-1], seconds=seconds), task)
    if len(replies) > 1 and not call["error"]:
        call["cut"] = "front"
    return call


@dataclass(frozen=True, slots=True)
class _HandedOver:
    """A text to be read, or one sentence that says why there is none."""

    text: str
    error: str | None = None


def _handed_over(call: ModelCall, transfer: Transfer) -> _HandedOver:
    reasoning = cut_reasoning(call["text"], call["finish_reason"]).text
    if transfer == "full":
        return _HandedOver(reasoning)
    try:
        text: Any = transfer(reasoning)
        refuse_awaitable(text)
        if not isinstance(text, str):
            raise TypeError(f"it returned {type(text).__name__}, not a text")
        if not text.strip():
            raise ValueError("it returned an empty text")
        return _HandedOver(text)
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001  what it may raise is unknown; it is reported
        return _HandedOver("", failure("transfer", error))
