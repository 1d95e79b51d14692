"""Human review: a person may overrule the models before the reasoning is transferred."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from langgraph.types import interrupt

from .caller import Node, Update, emit
from .state import RunState


def review() -> Node:
    """Make the node. It interrupts the run and shows both models' answers.

    Resumed with a text or a number (`Command(resume="4")`, or `{"answer": "4"}`), that is the
    answer. Resumed with an empty text or `{"answer": None}`, the run continues with the transfer.
    Resumed with anything else, the run is interrupted again, and `problem` in what it shows says
    what was wrong.
    """

    def overrule(state: RunState) -> Update:
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
        resumed = interrupt(shown)
        while problem := _problem(resumed):
            resumed = interrupt({**shown, "problem": problem})
        answer = _answer(resumed)
        emit({"event": "stage", "stage": "review", "answer": answer})
        return {"review": answer}

    return Node("review", overrule)


def after_review(state: RunState) -> Literal["respond", "reasoning_transfer"]:
    """Continue with the transfer, unless a person has answered."""
    return "respond" if state["review"] is not None else "reasoning_transfer"


def waits_for_person(result: Mapping[str, Any]) -> bool:
    """Whether a graph's result is no answer yet: the run was interrupted."""
    return "__interrupt__" in result or result.get("route") is None


def _given(resumed: Any) -> Any:
    """Return the answer, provided alone or by its name."""
    if isinstance(resumed, Mapping) and set(resumed) == {"answer"}:
        return resumed["answer"]
    return resumed


def _problem(resumed: Any) -> str | None:
    given = _given(resumed)
    if given is None or isinstance(given, str) or _number(given) is not None:
        return None
    return (
        "Answer with a text or a number, alone or as {'answer': ...}, or with an empty text to go "
        f"on, not with {type(given).__name__}."
    )


def _answer(resumed: Any) -> str | None:
    given = _given(resumed)
    text = given if isinstance(given, str) else _number(given)
    return text.strip() or None if text is not None else None


def _number(given: Any) -> str | None:
    """Return a number as people write it; None for what is none."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        return None
    return str(int(given)) if int(given) == given else str(given)
