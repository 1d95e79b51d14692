"""Human review: a person may overrule the models before the reasoning is transferred."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from langgraph.types import interrupt

from .caller import Caller, Node, Update, emit
from .model_call import whole_reasoning
from .prompts import LETTERS
from .state import RunState

_ACTION = "answer"


def review() -> Node:
    """Make the node. It interrupts the run with LangChain's human-in-the-loop request.

    The request proposes one action, `answer`, with the large model's answer, and holds besides
    `question`, `images`, `choices`, `small`, `large` (their answers) and `reasoning`. Resumed with
    `{"decisions": [...]}`, "approve" takes the proposed answer, "edit" (`args.answer`) and
    "respond" (`message`) give another one, and "reject" continues with the transfer. A text or a
    number alone is an answer, too, and an empty text continues with the transfer. Resumed with
    anything else, the run is interrupted again, and `problem` in what it shows says what was wrong.
    """

    async def overrule(state: RunState, _: Caller) -> Update:
        shown = _request(state)
        # Not refused: LangGraph keeps what a run was resumed with, so an error would come back at
        # every try.
        answer, problem = _read(interrupt({**shown, "problem": None}), shown["large"])
        while problem:
            answer, problem = _read(interrupt({**shown, "problem": problem}), shown["large"])
        emit({"event": "stage", "stage": "review", "answer": answer})
        return {"review": answer}

    return Node("review", overrule)


def after_review(state: RunState) -> Literal["respond", "reasoning_transfer"]:
    """Continue with the transfer, unless a person has answered."""
    return "respond" if state.get("review") is not None else "reasoning_transfer"


def waits_for_person(result: Mapping[str, Any]) -> bool:
    """Whether a graph's result is no answer yet: the run was interrupted."""
    return "__interrupt__" in result or result.get("route") is None


def _request(state: RunState) -> dict[str, Any]:
    task, small, large = state["task"], state["small_reason"], state["large_direct"]
    images = [image["reference"] for image in task["images"]]
    answers = {"small": small and small["answer"], "large": large and large["answer"]}
    reasoning = whole_reasoning(small) if small else ""
    lines = [
        f"**{task['question']}**",
        *(f"![image]({image})" for image in images if image.startswith(("http:", "https:"))),
        *(f"- {letter}. {text}" for letter, text in zip(LETTERS, task["choices"], strict=False)),
        f"The large model answers: {answers['large']}",
        f"The small model answers: {answers['small']}. It reasons:",
        *(f"> {line}" for line in reasoning.splitlines()),
    ]
    decisions = ["approve", "edit", "reject", "respond"]
    proposed = answers["large"]
    return {
        "action_requests": [
            {
                "name": _ACTION,
                "args": {"answer": proposed or ""},
                "description": "\n\n".join(lines),
            }
        ],
        "review_configs": [
            {
                "action_name": _ACTION,
                "allowed_decisions": decisions[proposed is None :],  # nothing to approve
            }
        ],
        "question": task["question"],
        "images": images,
        "choices": task["choices"],
        **answers,
        "reasoning": reasoning,
    }


def _read(resumed: Any, proposed: str | None) -> tuple[str | None, str | None]:
    """Return the answer of a person, None for none, and what is wrong with it."""
    match resumed:
        case {"decisions": [{"type": "approve"}]} if proposed is not None:
            return proposed, None
        case {"decisions": [{"type": "reject"}]}:
            return None, None
        case (
            {"decisions": [{"type": "edit", "edited_action": {"args": {"answer": answer}}}]}
            | {"decisions": [{"type": "respond", "message": answer}]}
            | {"answer": answer}
        ) if len(resumed) == 1:
            resumed = answer
    if resumed is None or isinstance(resumed, str):
        return (resumed or "").strip() or None, None
    if isinstance(resumed, int | float) and type(resumed) is not bool and math.isfinite(resumed):
        return str(int(resumed) if int(resumed) == resumed else resumed), None
    return None, (
        'Resume with {"decisions": [{"type": "approve"}]} (or "edit", "respond", "reject"), or '
        "with the answer as a text or a number; with an empty text to continue."
    )
