"""Mutual verification: do two answers agree, and where does the run go then?

A verifier that fails costs no answer: it counts as abstaining, and is recorded as a failed call.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, get_args

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from ..answers import Answer, Verdict, agree
from ..configs import ConfigError
from .judge import Judge, Judgement, agree_by_rule
from .model_call import read_answer, record
from .own_function import check_function, failure, refuse_awaitable
from .request import Reply
from .state import ModelCall, RunState, Task
from .step import Step, Update, emit

Verifier = Callable[[Answer, Answer], Verdict] | Judge


def check_verifier(verifier: Any) -> None:
    """Refuse what cannot compare two answers.

    Raises:
        ConfigError: Neither a function nor a `Judge`, or an async function.
    """
    if isinstance(verifier, Judge):
        return
    if not callable(verifier):
        raise ConfigError(
            "`verifier` must be a function of two answers, a Judge, or None for the default, not "
            f"{verifier!r}."
        )
    check_function(verifier, "verifier")


def direct_verification(verifier: Verifier) -> Step:
    """Compares the two direct answers."""
    return _verification("direct", "small_direct", "large_direct", verifier)


def reasoning_verification(verifier: Verifier) -> Step:
    """Compares the small model's reasoned answer with the large model's direct one."""
    return _verification("reasoning", "small_reason", "large_direct", verifier)


def after_direct_verification(state: RunState) -> Literal["respond", "small_reasoning"]:
    """On to the reasoning, unless the answers agree or a model could not answer at all.

    A model that failed once is not asked for more: the other one's answer stands.
    """
    if state["direct_verdict"] == "agree" or not _both_answered(
        state["small_direct"], state["large_direct"]
    ):
        return "respond"
    return "small_reasoning"


def after_reasoning_verification(state: RunState) -> Literal["respond", "reasoning_transfer"]:
    """On to the transfer, unless the answers agree or there is no reasoning to transfer."""
    reasoned = state["small_reason"]
    if state["reasoning_verdict"] == "agree" or not reasoned or not reasoned["text"].strip():
        return "respond"
    return "reasoning_transfer"


def before_review(state: RunState) -> Literal["respond", "review"]:
    """Where the transfer would follow, a person is asked first."""
    return "respond" if after_reasoning_verification(state) == "respond" else "review"


def _verification(
    name: Literal["direct", "reasoning"],
    first_key: Literal["small_direct", "small_reason"],
    second_key: Literal["large_direct"],
    verifier: Verifier,
) -> Step:
    stage = "verification" if name == "direct" else "reasoning_verification"

    def answers(state: RunState) -> tuple[Answer, Answer] | None:
        first, second = state[first_key], state[second_key]
        if first is None or second is None or not _both_answered(first, second):
            return None
        return read_answer(first, state["task"]), read_answer(second, state["task"])

    def update(state: RunState, judgement: Judgement) -> Update:
        verdict, call = judgement
        first, second = state[first_key], state[second_key]
        emit(
            {
                "event": "verdict",
                "stage": stage,
                "verdict": verdict,
                "small": first and first["answer"],
                "large": second and second["answer"],
            }
        )
        return {f"{name}_verdict": verdict, f"{name}_judgement": call}

    def run(state: RunState, config: RunnableConfig) -> Update:
        pair = answers(state)
        if pair is None:
            return update(state, ("abstain", None))
        if isinstance(verifier, Judge):
            return update(state, verifier.verdict(*pair, state["task"], config))
        return update(state, _judgement(verifier, pair, state["task"]))

    async def arun(state: RunState, config: RunnableConfig) -> Update:
        pair = answers(state)
        if pair is None:
            return update(state, ("abstain", None))
        if isinstance(verifier, Judge):
            return update(state, await verifier.averdict(*pair, state["task"], config))
        return update(state, await asyncio.to_thread(_judgement, verifier, pair, state["task"]))

    return Step(stage, run, arun)


def _judgement(
    verifier: Callable[[Answer, Answer], Verdict], pair: tuple[Answer, Answer], task: Task
) -> Judgement:
    try:
        verdict: Any = agree_by_rule(*pair, task) if verifier is agree else verifier(*pair)
        refuse_awaitable(verdict)
        if isinstance(verdict, str) and verdict in get_args(Verdict):
            return verdict, None  # type: ignore[return-value]
        raise TypeError(f"it returned {verdict!r}, not 'agree', 'disagree' or 'abstain'")
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001  what it may raise is unknown; it is reported
        reply = Reply(0.0, error=failure("verifier", error))
        return "abstain", record("judge", "judge", reply, task)


def _both_answered(first: ModelCall | None, second: ModelCall | None) -> bool:
    return all(call is not None and call["error"] is None for call in (first, second))
