"""Reasoning transfer: a model reads a finished reasoning, or part of it, and answers directly.

With one model as source and target it is two-stage; it is the same step. A transfer function or a
selection of tokens that fails costs no answer: the model is not asked, and the failure is recorded
as that of its call. A reasoning that the target's context has no room for is shortened from its
front.
"""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from ..configs import SparseTransfer
from .model_call import aask, ask, record
from .own_function import failure, refuse_awaitable
from .reasoning import cut_reasoning
from .request import Reply
from .shortening import Shortening
from .state import ModelCall, Role, RunState, Selection, Task
from .step import ModelStep, Selecting, Update, emit
from .transfer_option import HandOver, TransferOption


def reasoning_transfer(source: Role, option: TransferOption) -> ModelStep:
    """Make the step.

    Args:
        source: Whose reasoning is read; the state holds it.
        option: What is handed over of it, and who reads that and answers, in style S.
    """
    target = option.reader
    source_key: Literal["small_reason", "large_reason"] = (
        "small_reason" if source == "small" else "large_reason"
    )
    key = f"{target.role}_transfer"

    def wanted(state: RunState) -> HandOver:
        return option.wanted(state["task"].get("settings", {}))

    def quotes(state: RunState) -> str:
        call = state.get(source_key)
        return _handed_over(call, wanted(state)).text if call else ""

    def selects(state: RunState) -> Selecting | None:
        sparse = wanted(state)
        if not isinstance(sparse, SparseTransfer):
            return None
        return sparse, option.selector.asked(sparse)

    def begin(state: RunState) -> "_Transfer | ModelCall | None":
        """The transfer; a failed call if there cannot be one; None without a reasoning."""
        call = state[source_key]
        if call is None or not call["text"].strip():
            return None
        handed = _handed_over(call, how := wanted(state))
        if handed.error:
            return record(target.role, "transfer", Reply(0.0, error=handed.error), state["task"])
        sparse = how if isinstance(how, SparseTransfer) else None
        return _Transfer(call, source, target.role, Shortening(handed.text), sparse)

    def run(state: RunState, config: RunnableConfig) -> Update:
        transfer, task = begin(state), state["task"]
        if not isinstance(transfer, _Transfer):
            return {key: transfer}
        select = option.selector.select
        while transfer.goes_on():
            left = transfer.left.text
            selected = select(transfer.sparse, task, left) if transfer.sparse else None
            if (text := transfer.hand_over(selected)) is not None:
                transfer.replies.append(ask(target, "transfer", task, config, text))
        return {key: transfer.call(task)}

    async def arun(state: RunState, config: RunnableConfig) -> Update:
        transfer, task = await asyncio.to_thread(begin, state), state["task"]
        if not isinstance(transfer, _Transfer):
            return {key: transfer}
        select = option.selector.aselect
        while transfer.goes_on():
            left = transfer.left.text
            selected = await select(transfer.sparse, task, left) if transfer.sparse else None
            if (text := transfer.hand_over(selected)) is not None:
                transfer.replies.append(await aask(target, "transfer", task, config, text))
        return {key: transfer.call(task)}

    return ModelStep(
        "reasoning_transfer", target, "transfer", run, arun, quotes=quotes, selects=selects
    )


@dataclass(slots=True)
class _Transfer:
    """A reasoning on its way to its reader: tries, each with less of it, until one fits.

    Attributes:
        reasoning: The call that wrote it.
        source: Who wrote it.
        target: Who reads it.
        left: What is left of it.
        sparse: How tokens of that are selected; None if all are handed over.
        replies: What came of each try.
        selections: What was selected, if tokens were.
    """

    reasoning: ModelCall
    source: Role
    target: Role
    left: Shortening
    sparse: SparseTransfer | None
    replies: list[Reply] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)

    def goes_on(self) -> bool:
        """Whether the model is asked, for the first time or with the end of the reasoning only."""
        return not self.replies or self.left.shorten(self.replies[-1].too_long)

    def hand_over(self, selected: Selection | Reply | None) -> str | None:
        """What the model is to read, which watchers are told; None if a selection failed.

        Args:
            selected: What was selected of what is left, or why nothing was; None if all of it is
                handed over.
        """
        if isinstance(selected, Reply):
            self.replies.append(selected)
            return None
        text, tokens = self.left.text, {}
        if selected is not None:
            self.selections.append(selected)
            text = selected["text"]
            tokens = {name: selected[name] for name in ("kept_tokens", "reasoning_tokens")}
        emit(
            {
                "event": "reasoning_transfer",
                "source": self.source,
                "target": self.target,
                "cut": "front" if self.replies else self.reasoning["cut"],
                "characters": len(text),
                "characters_written": len(self.reasoning["text"]),
                **tokens,
            }
        )
        return text

    def call(self, task: Task) -> ModelCall:
        """The record of the last try, with what all of them cost."""
        asked = sum(reply.seconds for reply in self.replies)
        selecting = sum(selection["seconds"] for selection in self.selections)
        reply = replace(self.replies[-1], seconds=asked + selecting)
        call = record(self.target, "transfer", reply, task)
        if len(self.replies) > 1 and not call["error"]:
            call["cut"] = "front"
        if self.selections and not call["error"]:
            call["selection"] = _with_all_costs(self.selections)
        return call


def _with_all_costs(selections: list[Selection]) -> Selection:
    """The last of several selections, with what all of them cost."""
    return {
        **selections[-1],
        "input_tokens": sum(one["input_tokens"] for one in selections),
        "cached_tokens": sum(one["cached_tokens"] for one in selections),
        "seconds": sum(one["seconds"] for one in selections),
    }


@dataclass(frozen=True, slots=True)
class _HandedOver:
    """A text to be read, or one sentence that says why there is none."""

    text: str
    error: str | None = None


def _handed_over(call: ModelCall, how: HandOver) -> _HandedOver:
    """A reasoning without its loop, and after a transfer of the user's own."""
    reasoning = cut_reasoning(call["text"], call["finish_reason"]).text
    if not callable(how):
        return _HandedOver(reasoning)
    try:
        text: Any = how(reasoning)
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
