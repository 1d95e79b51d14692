"""The first step: reads the input, checks it, and makes it plain data.

It also resets every key of the former run: on a thread with a checkpointer they would still be
there, and answer the next question.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, get_args
from urllib.parse import urlparse

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.runtime import Runtime

from ..answers import AnswerType, infer_answer_type, split_choices
from ..models.images import ImageError, image_reference, load_image
from .asked_message import message_pictures, message_question
from .context import MAIContext, read_context, run_settings
from .errors import MAIInputError
from .prompts import LETTERS
from .state import CallKey, RunState, Settings, Task
from .step import Update


class PrepareStep(Protocol):
    """A step that reads the run's context."""

    def __call__(self, state: RunState, *, runtime: Runtime[MAIContext]) -> Update:
        """Return what the step writes."""
        ...


def prepare(
    *,
    allow_fetch: bool = False,
    digest: bool = False,
    name_run: Callable[[], str] | None = None,
    check_settings: Callable[[Settings], None] | None = None,
) -> PrepareStep:
    """Make the step. It also reads the run's context, and puts its settings into the task.

    Args:
        allow_fetch: Whether http(s) images may be fetched; they are fetched once, here.
        digest: Whether to hash the images' pixels, for cache keys.
        name_run: Gives the run a name, by which a reasoning that begins early is found.
        check_settings: Raises `MAIInputError` for settings that the graph cannot follow.
    """

    def step(state: RunState, *, runtime: Runtime[MAIContext]) -> Update:
        context = read_context(runtime.context)
        if (state.get("answer_type") or "auto") == "auto":
            state = {**state, "answer_type": context.answer_type}
        settings = run_settings(context)
        if check_settings:
            check_settings(settings)
        task = read_task(state, allow_fetch=allow_fetch, digest=digest)
        if settings:
            task["settings"] = settings
        named = {"overlap": name_run()} if name_run else {}
        return {**_fresh_run(), **named, "task": task}

    return step


def read_task(state: RunState, *, allow_fetch: bool = False, digest: bool = False) -> Task:
    """What is asked, from `question` and `images` or from the last human message.

    A `question` goes before the messages, and `images` before the images of the message. Without
    `images`, those of the last message count too if it is a human one (asked together with the
    question); a message further back belongs to an earlier turn.

    Raises:
        MAIInputError: No question, or something about the input that a person must change.
    """
    message = _human_message(state)
    question = _question(state, message)
    references = _references(state, message)
    pictures = [_checked(reference, allow_fetch) for reference in references]
    question, choices, answer_type = _choices_and_type(state, question)
    return {
        "question": question,
        "images": [reference for reference, _ in pictures],
        "choices": choices,
        "answer_type": answer_type,
        "digests": [_digest(picture) for _, picture in pictures] if digest else [],
    }


def _fresh_run() -> Update:
    """Every key that a run writes, empty."""
    keys = (
        *get_args(CallKey),
        "direct_verdict",
        "reasoning_verdict",
        "review",
        "answer",
        "route",
        "fallback",
    )
    return {**dict.fromkeys(keys), "calls": []}


def _human_message(state: RunState) -> HumanMessage | None:
    messages: list[BaseMessage] = list(state.get("messages") or [])
    if state.get("question") is not None:
        messages = messages[-1:]
    return next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)


def _question(state: RunState, message: HumanMessage | None) -> str:
    given = state.get("question")
    if given is not None and not isinstance(given, str):
        raise MAIInputError(f"`question` must be a text, not {_kind(given)}.")
    question = given if given is not None else message_question(message) if message else None
    if question is None:
        raise MAIInputError(
            "There is nothing to ask: give `question` (and `images`), or `messages` with a human "
            "message; a parent graph hands over only the keys that it declares by these names."
        )
    if not question.strip():
        raise MAIInputError("The question is empty: write what is to be answered.")
    return question.strip()


def _references(state: RunState, message: HumanMessage | None) -> list[str]:
    images: Any = state.get("images")
    if images is None or (isinstance(images, list | tuple) and not images):
        return message_pictures(message) if message else []
    if not isinstance(images, list | tuple):
        images = [images]
    try:
        return [image_reference(image) for image in images]
    except ImageError as error:
        raise MAIInputError(str(error)) from error


def _checked(reference: str, allow_fetch: bool) -> tuple[str, Any]:
    """The picture, decoded once to be sure that it can be; a fetched one is kept as a file."""
    try:
        picture = load_image(reference, allow_fetch=allow_fetch)
        if urlparse(reference).scheme in {"http", "https"}:
            reference = image_reference(picture)
    except ImageError as error:
        raise MAIInputError(str(error)) from error
    return reference, picture


def _digest(picture: Any) -> str:
    pixels = hashlib.sha256(str((picture.mode, picture.size)).encode())
    pixels.update(picture.tobytes())
    return pixels.hexdigest()


def _choices_and_type(state: RunState, question: str) -> tuple[str, list[str], AnswerType]:
    wanted = state.get("answer_type") or "auto"
    if wanted != "auto" and wanted not in get_args(AnswerType):
        known = ", ".join(["auto", *get_args(AnswerType)])
        raise MAIInputError(f"The answer type {wanted!r} is unknown; use one of {known}.")
    choices = _checked_choices(state.get("choices"))
    if not choices and wanted in {"auto", "choice"}:
        question, found = split_choices(question)
        choices = _checked_choices(found)
    if wanted == "auto":
        return question, choices, infer_answer_type(question, choices)
    return question, choices, wanted  # type: ignore[return-value]


def _checked_choices(choices: Any) -> list[str]:
    if choices is None:
        return []
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise MAIInputError(f"`choices` must be a list of texts, not {_kind(choices)}.")
    for choice in choices:
        if not isinstance(choice, str) or not choice.strip():
            raise MAIInputError(f"Every choice must be a text that is not empty, not {choice!r}.")
    # A line break would let one option look like two.
    texts = [" ".join(line.strip() for line in choice.strip().splitlines()) for choice in choices]
    if len(texts) > len(LETTERS):
        raise MAIInputError(f"There are {len(texts)} choices; at most {len(LETTERS)} have letters.")
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise MAIInputError(f"The choice {text!r} is given twice; remove one.")
        seen.add(text)
    return texts


def _kind(value: Any) -> str:
    return type(value).__name__
