"""Mutual verification: do two answers agree, and where does the run go then?

Answers are compared as the calls hold them; nothing is parsed. A verifier that fails costs no
answer: it counts as abstaining, and is recorded as a failed call.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from ..answers import Answer, AnswerType, Verdict, agree
from ..answers.answer import FREE_TEXT_OVERLAP
from ..answers.schemas import Schema
from ..configs import ConfigError
from .call_cache import CallCache
from .caller import Caller, ChatModel, Node, Request, Update, emit, one_line
from .fields import disputed_fields, wanted_schema
from .model_call import check_chat_model, check_timeout, read_answer, record, whole_reasoning
from .reply import Reply
from .settings import check_state
from .state import CallKey, ModelCall, RunState, Task

_QUESTION = (
    "Two answers were given to this question.\n\nQuestion: {question}\n\nFirst answer: {first}\n\n"
    "Second answer: {second}\n\nDo both say the same? Answer with yes or no."
)


@dataclass(frozen=True, slots=True)
class Judge:
    """A verifier that calls a chat model where a comparison by rule cannot tell.

    Answers whose type has exact values (yes or no, a choice, a number, a list) are compared by
    `agree`, without a call; so are answers that already agree, and abstentions.

    Attributes:
        model: The model that judges; it sees the question and both answers, not the images.
        kinds: Answer types that are worth a call.
        max_tokens: Limit on its output, in tokens.
        timeout: Seconds that it may take; None for no limit. Without a verdict in time the answers
            count as not agreeing.
    """

    model: ChatModel
    kinds: tuple[AnswerType, ...] = ("short_text", "free_text")
    max_tokens: int = 16
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_chat_model(self.model, "model")
        check_timeout(self.timeout)


Verifier = Callable[[Answer, Answer], Verdict] | Judge

REVIEW_ID = "review-"
"""How the id of a message begins that an answer is to replace."""

_SAID: dict[str | None, Verdict] = {"yes": "agree", "no": "disagree"}


def check_verifier(verifier: Any) -> None:
    """Raise `ConfigError` for what cannot compare two answers."""
    if isinstance(verifier, Judge):
        return
    if not callable(verifier):
        raise ConfigError(
            "`verifier` must be a function of two answers, a Judge, or None for the default, not "
            f"{verifier!r}."
        )
    check_callback(verifier, "verifier")


def check_callback(function: Any, name: str) -> None:
    """Raise `ConfigError` for an async user callback, with the argument's name."""
    called = getattr(function, "__call__", None)  # noqa: B004  an object's own, maybe async
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        raise ConfigError(
            f"`{name}` must be a plain function, not an async one; in an async run it is called in "
            "a thread."
        )


def verification(
    stage: Literal["direct", "reasoning"],
    verifier: Verifier,
    cache: CallCache | None = None,
    *,
    reviewed: bool = False,
) -> Node:
    """Make the node: compares the small model's direct or reasoned answer with the large one's.

    Args:
        stage: Which answer of the small model; the large one's is its direct answer.
        verifier: Compares them.
        cache: Where calls of a `Judge` are stored.
        reviewed: Whether a review may follow. The conversation then says what it is about, until
            the answer takes the message's place: chat pages show a review below a message.
    """
    name = "verification" if stage == "direct" else "reasoning_verification"
    key: CallKey = "small_direct" if stage == "direct" else "small_reason"

    async def steps(state: RunState, caller: Caller) -> Update:
        small, large, task = state.get(key), state.get("large_direct"), state["task"]
        disputed = dict(state.get("disputed") or {})
        verdict: Verdict = "abstain"
        judgement = None
        if small and large and not (small["error"] or large["error"]):
            if "schema" in task:
                verdict, judgement, disputed[stage] = await _judge_fields(
                    caller, verifier, wanted_schema(task, disputed), small, large, task
                )
            else:
                answers = read_answer(small, task), read_answer(large, task)
                verdict, judgement = await _compare(caller, verifier, *answers, task)
        emit(
            {
                "event": "verdict",
                "stage": name,
                "verdict": verdict,
                "small": small and small["answer"],
                "large": large and large["answer"],
            }
        )
        update: Update = {f"{stage}_verdict": verdict, f"{stage}_judgement": judgement}
        if disputed:
            update["disputed"] = disputed
        if reviewed and before_review({**state, "reasoning_verdict": verdict}) == "review":
            text = disagreement(small, large)
            update["messages"] = [AIMessage(text, id=f"{REVIEW_ID}{uuid4()}")]
        return update

    return Node(name, steps, cache)


def disagreement(small: ModelCall | None, large: ModelCall | None) -> str:
    """Tell a person that two answers differ."""
    first, second = (call and call["answer"] for call in (small, large))
    return f"The small model answers {first or 'nothing'}, the large one {second or 'nothing'}."


def after_direct_verification(state: RunState) -> Literal["respond", "small_reasoning"]:
    """Continue with the reasoning, unless the answers agree or a model could not answer at all.

    A model that failed once is not called again: the other one's answer stands.
    """
    check_state(state)  # it may have been written by `update_state`, and read by no node yet
    calls = state.get("small_direct"), state.get("large_direct")
    failed = any(call is None or call["error"] for call in calls)
    return "respond" if failed or state.get("direct_verdict") == "agree" else "small_reasoning"


def after_reasoning_verification(state: RunState) -> Literal["respond", "reasoning_transfer"]:
    """Continue with the transfer, unless the answers agree or there is nothing to transfer."""
    check_state(state)
    reasoned = state.get("small_reason")
    if state.get("reasoning_verdict") == "agree" or not reasoned:
        return "respond"
    return "reasoning_transfer" if whole_reasoning(reasoned).strip() else "respond"


def before_review(state: RunState) -> Literal["respond", "review"]:
    """Where the transfer would follow, the review comes first."""
    return "respond" if after_reasoning_verification(state) == "respond" else "review"


async def _judge_fields(
    caller: Caller,
    verifier: Verifier,
    schema: Schema,
    small: ModelCall,
    large: ModelCall,
    task: Task,
) -> tuple[Verdict, ModelCall | None, list[str]]:
    """Return the verdict, the last call of a `Judge`, and the fields that are disputed."""
    judgement = None
    names: list[str] = []
    for field, pair in disputed_fields(schema, small, large):
        verdict: Verdict = "disagree"
        if verifier is not agree and pair:
            verdict, judgement = await _compare(caller, verifier, *pair, task)
        if verdict != "agree":
            names.append(field.name)
    return ("disagree" if names else "agree"), judgement, names


async def _compare(
    caller: Caller, verifier: Verifier, first: Answer, second: Answer, task: Task
) -> tuple[Verdict, ModelCall | None]:
    if isinstance(verifier, Judge) or verifier is agree:
        overlap = task.get("settings", {}).get("free_text_overlap", FREE_TEXT_OVERLAP)
        by_rule = agree(first, second, free_text_overlap=overlap)
        if not isinstance(verifier, Judge) or by_rule != "disagree":
            return by_rule, None
        if first.kind not in verifier.kinds:
            return by_rule, None
        text = _QUESTION.format(question=task["question"], first=first.text, second=second.text)
        limits = verifier.max_tokens, verifier.timeout
        request = Request(verifier.model, "judge", "judge", [HumanMessage(text)], (), *limits)
        reply = await caller.reply(request)
        asked: Any = {key: value for key, value in task.items() if key != "schema"}
        asked |= {"choices": [], "answer_type": "yes_no"}
        call = record("judge", "judge", reply, asked)
        return _SAID.get(call["answer"], "abstain"), call
    try:
        verdict: Any = await caller.run(verifier, first, second)
        if verdict in get_args(Verdict):
            return verdict, None
        raise TypeError(f"it returned {verdict!r}, not 'agree', 'disagree' or 'abstain'")
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001  what it may raise is unknown; it is reported
        failed = Reply(0.0, error=f"The verifier failed: {one_line(error)}")
        return "abstain", record("judge", "judge", failed, task)
