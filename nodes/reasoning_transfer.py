"""Reasoning transfer: a model reads a finished reasoning and answers directly.

With one model as source and target it is two-stage; it is the same step.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from langchain_core.runnables import RunnableConfig

from .model_call import Agent, acall_model, call_model
from .reasoning import cut_reasoning
from .state import MAIState, Role
from .step import ModelStep, Update, emit

Transfer = Literal["full"] | Callable[[str], str]


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

    def reasoning(state: MAIState) -> str:
        """What is handed over; empty if the reasoning failed."""
        call = state[source_key]
        if call is None or not call["text"].strip():
            return ""
        whole = cut_reasoning(call["text"], call["finish_reason"])
        text = whole.text if transfer == "full" else transfer(whole.text)
        emit(
            {
                "event": "reasoning_transfer",
                "source": source,
                "target": target.role,
                "cut": whole.cut,
                "characters": len(text),
                "characters_written": len(call["text"]),
            }
        )
        return text

    def run(state: MAIState, config: RunnableConfig) -> Update:
        text = reasoning(state)
        call = call_model(target, "transfer", state["task"], config, text) if text else None
        return {key: call}

    async def arun(state: MAIState, config: RunnableConfig) -> Update:
        text = await asyncio.to_thread(reasoning, state)
        call = await acall_model(target, "transfer", state["task"], config, text) if text else None
        return {key: call}

    return ModelStep(
        "reasoning_transfer",
        target,
        "transfer",
        run,
        arun,
        reads=(source_key,),
        settings=transfer if isinstance(transfer, str) else f"{transfer!r}",
    )
