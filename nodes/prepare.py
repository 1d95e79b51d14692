"""The first node: reads the input, checks it, and makes it plain data.

Each image is resolved and decoded here, once; the hash of its content is its name from here on. The
node also resets every key of the former run: on a thread with a checkpointer they would still be
there, and answer the next question.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args
from uuid import uuid4

from langgraph.runtime import get_runtime
from PIL import Image
from typing_extensions import Unpack

from ..answers import AnswerType, infer_answer_type, split_choices
from ..models.images import (
    MAX_IMAGES,
    MAX_RUN_PIXELS,
    DecodedImage,
    ImageAccess,
    ImageError,
    block_image,
    cached_image,
    describe,
    image_reference,
    load_image,
)
from .caller import Caller, Node, Update
from .conversation import (
    ShownImage,
    later_images,
    latest_images,
    question_turn,
)
from .fields import checked_schema
from .prompts import LETTERS
from .settings import read_context
from .state import (
    MAX_TEXT,
    CallKey,
    ImageReference,
    MAIInputError,
    RunState,
    Task,
)

NS_SEP = "|"
"""What LangGraph puts between the names of nested graphs' nodes."""

_WRITTEN: tuple[str, ...] = (
    *get_args(CallKey),
    *("direct_verdict", "reasoning_verdict", "review", "disputed"),
    *("answer", "value", "route", "fallback", "confidence", "gate", "calls", "fields"),
)
"""Every key that a run writes."""


def prepare(
    access: ImageAccess,
    check_settings: Callable[[dict[str, Any]], None] | None = None,
    *,
    require_images: bool = True,
) -> Node:
    """Make the node. It also reads the run's context, and puts its settings into the task.

    Args:
        access: From where images may be read.
        check_settings: Raises `MAIInputError` for settings that the graph cannot follow.
        require_images: Whether a question without an image is refused.
    """

    async def steps(state: RunState, caller: Caller) -> Update:
        context = read_context(get_runtime().context)
        if (state.get("answer_type") or "auto") == "auto":
            state = {**state, "answer_type": context.answer_type}
        if (schema := state.get("schema")) is not None:
            state = {**state, "answer_type": "free_text"}
        settings = context.settings()
        if settings and check_settings:
            check_settings(settings)
        place = caller.config.get("configurable", {}).get("checkpoint_ns", "")
        nested = NS_SEP in place  # below a node of a parent graph
        task, data = await caller.run(_read, state, access, nested)
        if require_images and not task["images"]:
            raise MAIInputError(
                "There is no image in this conversation: send one with the question, as `images` "
                "(paths, URLs or data URIs) or inside a message. Only a graph made with "
                "`require_images=False` answers without."
            )
        if settings:
            task["settings"] = settings
        if schema is not None:
            task["schema"] = checked_schema(schema)
        written: Update = {key: None for key in _WRITTEN if state.get(key) is not None}
        if data:
            written["image_data"] = data
        if (asked := state.get("question")) is not None:
            # A thread's history holds it too; as a dict, for a stream of messages to leave it out.
            written["messages"] = [{"role": "user", "content": asked, "id": str(uuid4())}]
        return {**written, "task": task}

    # It reads input alone, and checks that itself.
    return Node("prepare", steps, check=lambda _: None)


def read_task(state: RunState, **access: Unpack[ImageAccess]) -> Task:
    """Read the question and its images, from `question` and `images` or from the messages.

    A `question` goes before what a person's last messages ask, and `images` before those in
    messages. A question without images of its own is about the latest ones of the conversation.

    Raises:
        MAIInputError: No question, or something about the input that a person must change.
    """
    return _read(state, access)[0]


def read_images(task: Task, state: RunState, access: ImageAccess) -> list[DecodedImage]:
    """Return a task's images: decoded already, or read again where they came from.

    Args:
        task: What `read_task` returned.
        state: The run's state, for images inside it.
        access: From where images may be read.

    Raises:
        ImageError: An image is gone, or is another one by now.
    """
    found = (
        (cached_image(image["digest"]) or _encoded(_read_again(image, state, access)), None)
        for image in task["images"]
    )
    return [image for image, _ in _within_limits(found)]


def _read(
    state: RunState, access: ImageAccess, nested: bool = False
) -> tuple[Task, dict[str, str]]:
    """Return the task, and the images that came as data, by digest."""
    messages = list(state.get("messages") or [])
    given: Any = state.get("question")
    # Beside a `question`, a person's last message is sent along, and earlier ones are history.
    turn = question_turn(messages if given is None else messages[-1:]) if messages else None
    if given is None and turn is None:
        raise MAIInputError(
            "There is nothing to ask: give `question` (and `images`), or `messages` with a human "
            "message; a parent graph passes only the keys that it declares by these names."
        )
    text, shown = turn or ("", [])
    asked = text if given is None else given
    if not isinstance(asked, str):
        raise MAIInputError(f"`question` must be a text, not {_kind(asked)}.")
    if not asked.strip():
        raise MAIInputError("The question is empty: write what is to be answered.")
    if len(asked.strip()) > MAX_TEXT:
        raise MAIInputError(f"The question is too long: {MAX_TEXT:,} characters at most are read.")
    question, choices, answer_type = _choices_and_type(state, asked.strip())
    references, data = _images(state, shown, access, nested)
    task: Task = {
        "question": question,
        "images": references,
        "choices": choices,
        "answer_type": answer_type,
    }
    return task, data


def _images(
    state: RunState, own: list[ShownImage], access: ImageAccess, nested: bool
) -> tuple[list[ImageReference], dict[str, str]]:
    """Return the images that a question is about: its own, or the latest of the conversation.

    `images` go before those of messages. In a parent graph they may be what an earlier run was
    given: there, those of the question's message and those sent since go before them.
    """
    messages = list(state.get("messages") or [])
    rows: Any = state.get("images")
    given = _filled(rows if isinstance(rows, list | tuple) else [rows])
    if not given or (nested and own):
        return _references(_shown(own or latest_images(messages), access))
    references, data = _references(_given_image(image, access) for image in given)
    later = later_images(messages, [one["reference"] for one in references]) if nested else []
    return _references(_shown(later, access)) if later else (references, data)


def _references(
    images: Iterable[tuple[DecodedImage, str | None]],
) -> tuple[list[ImageReference], dict[str, str]]:
    """Name each image by where it is read again, or by its content; return that of the latter."""
    data: dict[str, str] = {}
    references: list[ImageReference] = []
    try:
        for decoded, reference in _within_limits(images):
            if reference is None:
                data[decoded.digest] = decoded.base64
            named = reference or f"input:{decoded.digest}"
            references.append({"reference": named, "digest": decoded.digest})
    except ImageError as error:
        raise MAIInputError(str(error)) from error
    except MemoryError as error:
        raise MAIInputError("There is not enough memory for these images.") from error
    return references, data


def _within_limits(
    images: Iterable[tuple[DecodedImage, str | None]],
) -> Iterator[tuple[DecodedImage, str | None]]:
    """Yield images as long as a model can be given them together.

    Raises:
        ImageError: They are too many, or have too many pixels.
    """
    pixels = 0
    for number, (decoded, reference) in enumerate(images):
        pixels += decoded.image.width * decoded.image.height
        if pixels > MAX_RUN_PIXELS or number == MAX_IMAGES:
            raise ImageError(
                f"These are too many images: a question takes {MAX_IMAGES}, of "
                f"{MAX_RUN_PIXELS // 1_000_000} million pixels together; scale them down."
            )
        yield decoded, reference


def _shown(
    images: Iterable[ShownImage], access: ImageAccess
) -> Iterator[tuple[DecodedImage, str | None]]:
    for image in images:
        yield _encoded(block_image(image.block, **access)), image.reference


def _given_image(image: Any, access: ImageAccess) -> tuple[DecodedImage, str | None]:
    """Return an image of `images` with its absolute path or URL; with None where it is data."""
    if isinstance(image, bytes | bytearray | memoryview):
        image = bytes(image)
    if isinstance(image, bytes | Image.Image):
        return _encoded(block_image({"image": image})), None
    if isinstance(image, str) and image[:5].lower() == "data:":
        return _encoded(load_image(image)), None
    reference = image_reference(image, "")  # of a path or URL: no file is written
    return _encoded(load_image(os.fspath(image), **access)), reference


def _encoded(image: DecodedImage) -> DecodedImage:
    """Return an image with its base64 made, which model nodes then find ready."""
    _ = image.base64
    return image


def _read_again(image: ImageReference, state: RunState, access: ImageAccess) -> DecodedImage:
    """Read an image that is decoded no more, or was decoded in another process."""
    kind, _, name = image["reference"].partition(":")
    if kind == "input":
        data = (state.get("image_data") or {}).get(image["digest"])
        decoded = block_image({"type": "image", "base64": data}) if data else None
    elif kind == "message":
        block = _message_block(state, *name.rpartition("/")[::2])
        decoded = block_image(block, **access) if block else None
    else:
        decoded = load_image(image["reference"], **access)
        if decoded.digest != image["digest"]:
            raise ImageError(
                f"The image {describe(image['reference'])} was changed while the run was under "
                "way; ask the question again."
            )
    if decoded is None:
        raise ImageError(
            f"The image {image['reference']} is no longer in this run's state; send it again."
        )
    return decoded


def _message_block(state: RunState, identifier: str, index: str) -> Any:
    for message in state.get("messages") or []:
        if message.id == identifier and index.isdecimal():
            return next(iter(message.content[int(index) :]), None)
    return None


def _choices_and_type(state: RunState, question: str) -> tuple[str, list[str], AnswerType]:
    wanted = state.get("answer_type") or "auto"
    if wanted != "auto" and wanted not in get_args(AnswerType):
        known = ", ".join(["auto", *get_args(AnswerType)])
        raise MAIInputError(f"The answer type {wanted!r:.80} is unknown; use one of {known}.")
    choices = _checked_choices(state.get("choices"))
    if not choices and wanted in {"auto", "choice"}:
        question, found = split_choices(question)
        choices = _checked_choices(found)
    if wanted == "auto":
        return question, choices, infer_answer_type(question, choices)
    return question, choices, wanted


def _checked_choices(choices: Any) -> list[str]:
    if choices is None:
        return []
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise MAIInputError(f"`choices` must be a list of texts, not {_kind(choices)}.")
    choices = _filled(choices)
    for choice in choices:
        if not isinstance(choice, str):
            raise MAIInputError(f"Every choice must be a text, not {_kind(choice)}.")
    if sum(map(len, choices)) > MAX_TEXT:
        raise MAIInputError(f"The choices are too long: together, {MAX_TEXT:,} characters at most.")
    # A line break would let one option look like two.
    texts = [" ".join(line.strip() for line in choice.strip().splitlines()) for choice in choices]
    if len(texts) > len(LETTERS):
        raise MAIInputError(f"There are {len(texts)} choices; at most {len(LETTERS)} have letters.")
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise MAIInputError(f"The choice {text!r:.80} is given twice; remove one.")
        seen.add(text)
    return texts


def _filled(rows: Sequence[Any]) -> list[Any]:
    """Drop the rows of a form that nobody filled in."""
    return [row for row in rows if not isinstance(row, str | None) or (row and row.strip())]


def _kind(value: Any) -> str:
    return type(value).__name__
