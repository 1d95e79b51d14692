"""The last step: which answer stands, how far the run went, and what it cost."""

from collections.abc import Mapping
from typing import get_args
from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata

from ..answers import parse
from .errors import MAIError
from .state import CallKey, Fallback, ModelCall, Route, RunState, Selection, Task
from .step import PlainStep, Update, emit

Calls = Mapping[CallKey, ModelCall]

_IN_ORDER: tuple[CallKey, ...] = get_args(CallKey)

# Whose answer stands in, best first, where the step that should have answered could not.
_STAND_INS: tuple[CallKey, ...] = (
    "large_direct",
    "small_reason",
    "small_direct",
    "large_explain",
    "small_explain",
    "large_reason",
)


def respond(name: str) -> PlainStep:
    """Make the step.

    Args:
        name: The answering message's name.
    """

    def step(state: RunState) -> Update:
        calls = _calls(state)
        route, key = _standing(state, calls)
        answer, fallback = _answer(calls, key)
        if (reviewed := state.get("review")) is not None:
            answer, fallback = _as_written(reviewed, state["task"]), "review"
        elif route == "direct" and len(calls) > 1 and state["direct_verdict"] != "agree":
            # One of the two calls failed: the other one's answer is returned, but not verified.
            fallback = fallback or key
        emit({"event": "route", "route": route, "answer": answer, "fallback": fallback})
        message = AIMessage(
            content=answer,
            id=str(uuid4()),
            name=name,
            usage_metadata=_usage(list(calls.values())),
            response_metadata={"route": route, "fallback": fallback},
        )
        return {
            "answer": answer,
            "route": route,
            "fallback": fallback,
            "calls": list(calls.values()),
            "messages": [message],
        }

    return step


def _calls(state: RunState) -> Calls:
    made = {key: call for key in _IN_ORDER if (call := state.get(key)) is not None}
    if all(call["error"] for call in made.values()):
        raise MAIError(". ".join(str(call["error"]).rstrip(".") for call in made.values()) + ".")
    return made


def _standing(state: RunState, calls: Calls) -> tuple[Route, CallKey]:
    """The route, and the call that answers on it."""
    last = [key for key in calls if not key.endswith(("_judgement", "_overlap"))][-1]
    if last.endswith("_transfer"):
        return "transferred", last
    if last.endswith(("_reason", "_explain")):
        return "reasoned", "large_direct" if state.get("reasoning_verdict") == "agree" else last
    return "direct", "large_direct" if "large_direct" in calls else last


def _answer(calls: Calls, key: CallKey) -> tuple[str, Fallback | None]:
    """The answer of `key`, or what stands in for it, with its name."""
    answer = calls[key]["answer"]
    if answer is not None:
        return answer, None
    for stand_in in _STAND_INS:
        if stand_in in calls and (answer := calls[stand_in]["answer"]) is not None:
            return answer, stand_in
    texts = [calls[key]["text"], *(calls[k]["text"] for k in _STAND_INS if k in calls)]
    return next((text.strip() for text in texts if text.strip()), ""), "raw_text"


def _as_written(reviewed: str, task: Task) -> str:
    """A person's answer in the form of the models' ones, or as it is."""
    answer = parse(reviewed, task["answer_type"], task["choices"], task["question"])
    return reviewed if answer.value is None else answer.shown


def _usage(calls: list[ModelCall]) -> UsageMetadata | None:
    """Tokens over all calls; None if no model counts them.

    Prompts that were read to select tokens count as read, like those of the calls.
    """
    if all(call["output_tokens"] is None for call in calls):
        return None
    selections = [call["selection"] for call in calls if "selection" in call]
    prompts: list[ModelCall | Selection] = [*calls, *selections]
    read = sum(prompt["input_tokens"] or 0 for prompt in prompts)
    cached = sum(prompt["cached_tokens"] or 0 for prompt in prompts)
    written = sum(call["output_tokens"] or 0 for call in calls)
    return UsageMetadata(
        input_tokens=read,
        output_tokens=written,
        total_tokens=read + written,
        input_token_details=InputTokenDetails(cache_read=cached),
    )
