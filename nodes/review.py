"""Human review: a person may overrule the models before the reasoning is transferred."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from langgraph.types import interrupt

from .caller import Caller, Node, Update, emit
from .state import RunState


def review() -> Node:
    """Make the node. It interrupts the run and shows both models' answers.

    Resumed with a text or a number (`Command(resume="4")`, or `{"answer": "4"}`), that is the
    answer. Resumed with an empty text or `{"answer": None}`, the run continues with the transfer.
    Resumed with anything else, the run is interrupted again, and `problem` in what it shows says
    what was wrong.
    """

    async def overrule(state: RunState, _: Caller) -> Update:
        task, small, large = state["task"], state["small_reason"], state["large_direct"]
        shown = {
            "event": "review",
            "question": task["question"],
            "images": [image["reference"] for image in task["images"]],
            "choices": task["choices"],
            "small": small and small["answer"],
            "large": large and large["answer"],
            "reasoning": small and small["text"],
            "problem": None,
        }
        # Not refused: LangGraph keeps what a run was resumed with, so an error would come back at
        # every try.
        answer, problem = _read(interrupt(shown))
        while problem:
            answer, problem = _read(interrupt({**shown, "problem": problem}))
        emit({"event": "stage", "stage": "review", "answer": answer})
        return {"review": answer}

    return Node("review", overrule)


def after_review(state: RunState) -> Literal["respond", "reasoning_transfer"]:
    """Continue with the transfer, unless a person has answered."""
    return "respond" if state.get("review") is not None else "reasoning_transfer"


def waits_for_person(result: Mapping[str, Any]) -> bool:
    """Whether a graph's result is no answer yet: the run was interrupted."""
    return "__interrupt__" in result or result.get("route") is None


def _read(resumed: Any) -> tuple[str | None, str | None]:
    """Return the answer of a person, None for none, and what is wrong with it."""
    if isinstance(resumed, Mapping) and set(resumed) == {"answer"}:
        resumed = resumed["answer"]
    if resumed is None or isinstance(resumed, str):
        return (resumed or "").strip() or None, None
    if isinstance(resumed, int | float) and type(resumed) is not bool and math.isfinite(resumed):
        return str(int(resumed) if int(resumed) == resumed else resumed), None
    return None, (
        "Answer with a text or a number, alone or as {'answer': ...}, or with an empty text to "
        f"continue, not with {type(resumed).__name__}."
    )
