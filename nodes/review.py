"""Where a person may overrule the models, before the reasoning is transferred."""

from typing import Any, Literal

from langgraph.types import interrupt

from .errors import MAIInputError
from .state import RunState
from .step import PlainStep, Update, emit


def review() -> PlainStep:
    """Make the step. It interrupts the run and shows what both models say.

    Resumed with a text (`Command(resume="4")`, or `{"answer": "4"}`), that is the answer. Resumed
    with an empty text or `{"answer": None}`, the run goes on as if nobody had been asked.
    """

    def step(state: RunState) -> Update:
        task, small, large = state["task"], state["small_reason"], state["large_direct"]
        shown = {
            "event": "review",
            "question": task["question"],
            "images": task["images"],
            "choices": task["choices"],
            "small": small and small["answer"],
            "large": large and large["answer"],
            "reasoning": small and small["text"],
        }
        answer = _answer(interrupt(shown))
        emit({"event": "stage", "stage": "review", "answer": answer})
        return {"review": answer}

    return step


def after_review(state: RunState) -> Literal["respond", "reasoning_transfer"]:
    """On to the transfer, unless a person has answered."""
    return "respond" if state["review"] is not None else "reasoning_transfer"


def _answer(resumed: Any) -> str | None:
    answer = resumed.get("answer") if isinstance(resumed, dict) else resumed
    if answer is not None and not isinstance(answer, str):
        raise MAIInputError(
            "A review is resumed with the answer as a text, or with an empty text to go on, not "
            f"with {resumed!r}."
        )
    return answer.strip() or None if answer is not None else None
