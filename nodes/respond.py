"""The last node: which answer stands, how far the run went, and what it cost."""

from collections.abc import Mapping
from typing import Any, get_args
from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata

from ..answers import parse
from .caller import Caller, Node, Update, emit, tool_call_id
from .fields import fill
from .gate import Gate
from .model_call import plain_value, read_answer, whole_reasoning
from .state import (
    FALLBACKS,
    CallKey,
    Fallback,
    MAIError,
    MAIInputError,
    ModelCall,
    Route,
    RunState,
    Selection,
    Task,
    Value,
)
from .verification import REVIEW_ID, disagreement

Calls = Mapping[CallKey, ModelCall]


def respond(name: str, gate: Gate | None = None) -> Node:
    """Make the node.

    Args:
        name: The name of the answering message.
        gate: Whose calibration gives the confidence, and who is told of audited questions.
    """

    async def answer(state: RunState, caller: Caller) -> Update:
        calls = _calls(state)
        route, key = _standing(state, calls)
        task, reviewed = state["task"], state.get("review")
        filled: Update = {}
        if "schema" in task:
            filled = fill(task, state.get("disputed"), calls, (route, key), reviewed)
            answer, value = filled["answer"], filled["value"]
            route, fallback = filled["route"], filled["fallback"]
        else:
            answer, value, fallback = _answer(calls, key, task)
        if reviewed is not None and not filled:
            fallback = "review"
            read = parse(reviewed, task["answer_type"], task["choices"], task["question"])
            # In the form of the models' answers, or as it is.
            answer, value = reviewed if read.value is None else read.shown, plain_value(read)
        elif route == "direct" and len(calls) > 1 and state.get("direct_verdict") != "agree":
            # One of the two calls failed: the other one's answer is returned, but not verified.
            fallback = fallback or key
        confidence, decision = None, state.get("gate")
        if gate is not None:
            confidence, decision = await caller.run(
                gate.conclude, decision, state["task"], route, fallback, calls
            )
            if decision != state.get("gate"):  # off: the audit of this question says so
                emit({"event": "gate"} | dict(decision or {}))
        emit({"event": "route", "route": route, "answer": answer, "fallback": fallback})
        content = _content(state, answer)
        message = AIMessage(
            content=content,
            id=_message_id(state),
            name=name,
            usage_metadata=_usage(list(calls.values())),
            response_metadata={
                "route": route,
                "fallback": fallback,
                "confidence": confidence,
                "images": [image["reference"] for image in state["task"]["images"]],
                **({} if isinstance(content, str) else {"output_version": "v1"}),
            },
        )
        return {
            "answer": answer,
            "value": value,
            "route": route,
            "fallback": fallback,
            "confidence": confidence,
            "gate": decision,
            "calls": list(calls.values()),
            # In a tool, the answer is the tool's message: chat pages would show this one, too.
            "messages": [] if tool_call_id() else [message],
            **({"fields": filled["fields"]} if filled else {}),
            **({"image_data": {}} if state.get("image_data") else {}),
        }

    return Node("respond", answer)


def _content(state: RunState, answer: str) -> str | list[str | dict[Any, Any]]:
    """Return the answer, after the small agent's reasoning in LangChain's standard block."""
    task, small, large = state["task"], state.get("small_direct"), state.get("large_direct")
    shown = task.get("settings", {}).get("show_disagreement")
    if shown and state.get("direct_verdict") == "disagree":
        answer = f"{answer}\n\n{disagreement(small, large)}"
    reasoned = state.get("small_reason")
    if reasoned is None or not whole_reasoning(reasoned):
        return answer
    return [
        {"type": "reasoning", "reasoning": whole_reasoning(reasoned)},
        {"type": "text", "text": answer},
    ]


def _message_id(state: RunState) -> str:
    """Return a new id, or that of the message which told of the review."""
    messages = state.get("messages")
    last = str(messages[-1].id) if messages else ""
    return last if last.startswith(REVIEW_ID) else str(uuid4())


def _calls(state: RunState) -> Calls:
    keys: tuple[CallKey, ...] = get_args(CallKey)
    made = {key: call for key in keys if (call := state.get(key)) is not None}
    if all(key.endswith("_judgement") for key in made):
        raise MAIInputError("No model was called in this run: start a new one with a question.")
    if all(call["error"] for call in made.values()):
        raise MAIError(". ".join(str(call["error"]).rstrip(".") for call in made.values()) + ".")
    return made


def _standing(state: RunState, calls: Calls) -> tuple[Route, CallKey]:
    """Return the route, and the call that answers on it."""
    last = [key for key in calls if not key.endswith("_judgement")][-1]
    if last.endswith("_transfer"):
        return "transferred", last
    if last.endswith(("_reason", "_explain")):
        return "reasoned", "large_direct" if state.get("reasoning_verdict") == "agree" else last
    if (gate := state.get("gate")) and gate["confident"] and last == "small_direct":
        return "confident", last
    return "direct", "large_direct" if "large_direct" in calls else last


def _answer(calls: Calls, key: CallKey, task: Task) -> tuple[str, Value, Fallback | None]:
    """Return the answer of `key`, or its fallback with that one's name."""
    for other in (key, *FALLBACKS):
        if other in calls and (answer := calls[other]["answer"]) is not None:
            value = plain_value(read_answer(calls[other], task))
            return answer, value, None if other == key else other
    texts = [calls[key]["text"], *(calls[k]["text"] for k in FALLBACKS if k in calls)]
    return next((text.strip() for text in texts if text.strip()), ""), None, "raw_text"


def _usage(calls: list[ModelCall]) -> UsageMetadata | None:
    """Return the tokens of all calls; None if no model counts them.

    Prompts that were read to select tokens count like those of the calls.
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
