"""The first node: reads the input, checks it, and makes it plain data.

Each image is resolved and decoded here, once; the hash of its content is its name from here on. The
node also resets every key of the former run: on a thread with a checkpointer they would still be
there, and answer the next question.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from langchain_core.messages import BaseMessage, HumanMessage
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
    is_image_block,
    load_image,
)
from .caller import Caller, Node, Update
from .prompts import LETTERS
from .settings import read_context
from .state import (
    CallKey,
    ImageReference,
    MAIInputError,
    RunState,
    Task,
)

_WRITTEN: tuple[str, ...] = (
    *get_args(CallKey),
    *("direct_verdict", "reasoning_verdict", "review"),
    *("answer", "value", "route", "fallback", "confidence", "gate", "calls"),
)
"""Every key that a run writes."""


def prepare(
    access: ImageAccess, check_settings: Callable[[dict[str, Any]], None] | None = None
) -> Node:
    """Make the node. It also reads the run's context, and puts its settings into the task.

    Args:
        access: From where images may be read.
        check_settings: Raises `MAIInputError` for settings that the graph cannot follow.
    """

    async def steps(state: RunState, caller: Caller) -> Update:
        context = read_context(get_runtime().context)
        if (state.get("answer_type") or "auto") == "auto":
            state = {**state, "answer_type": context.answer_type}
        settings = context.settings()
        if check_settings:
            check_settings(settings)
        task, data = await caller.run(_read, state, access)
        if settings:
            task["settings"] = settings
        written = {key: None for key in _WRITTEN if state.get(key) is not None}
        return {**written, "task": task, **({"image_data": data} if data else {})}

    # It reads input alone, and checks that itself.
    return Node("prepare", steps, check=lambda _: None)


def read_task(state: RunState, **access: Unpack[ImageAccess]) -> Task:
    """Read the question from `question` and `images` or from the last human message.

    A `question` goes before the messages, and `images` before the images of the message. Without
    `images`, those of the last message count too if it is a human one (sent together with the
    question); a message further back belongs to an earlier turn.

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


def _read(state: RunState, access: ImageAccess) -> tuple[Task, dict[str, str]]:
    """Return the task, and the images that came as data, by digest."""
    message = _human_message(state)
    question = _question(state, message)
    references, data = _images(state, message, access)
    question, choices, answer_type = _choices_and_type(state, question)
    task: Task = {
        "question": question,
        "images": references,
        "choices": choices,
        "answer_type": answer_type,
    }
    return task, data


def _human_message(state: RunState) -> HumanMessage | None:
    messages: list[BaseMessage] = list(state.get("messages") or [])
    if state.get("question") is not None:
        messages = messages[-1:]
    return next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)


def _question(state: RunState, message: HumanMessage | None) -> str:
    given: Any = state.get("question")
    if given is not None and not isinstance(given, str):
        raise MAIInputError(f"`question` must be a text, not {_kind(given)}.")
    question = given if given is not None else _message_text(message) if message else None
    if question is None:
        raise MAIInputError(
            "There is nothing to ask: give `question` (and `images`), or `messages` with a human "
            "message; a parent graph passes only the keys that it declares by these names."
        )
    if not question.strip():
        raise MAIInputError("The question is empty: write what is to be answered.")
    return question.strip()


def _message_text(message: HumanMessage) -> str:
    """Return the texts of a message; two that touch are parted by a line break.

    Raises:
        MAIInputError: The message holds something that no agent would see: a video, a document.
    """
    if isinstance(message.content, str):
        return message.content
    question = ""
    for block in message.content:
        text = _block_text(block)
        touching = question and text and not (question[-1].isspace() or text[0].isspace())
        question += "\n" + text if touching else text
    return question


def _block_text(block: Any) -> str:
    """Return a block's text, empty for an image."""
    if isinstance(block, str):
        return block
    if is_image_block(block):
        return ""
    if isinstance(block, Mapping):
        kind = block.get("type")
        text = block.get("text")
        # input_text: OpenAI's Responses API; no type: Bedrock.
        if kind in ("text", "input_text", None) and isinstance(text, str):
            return text
        if kind == "non_standard":
            return _block_text(block.get("value"))
        named = " ".join(str(part) for part in (kind, block.get("mime_type")) if part)
        named = (named or ", ".join(map(str, block)) or "empty")[:100]
    else:
        named = type(block).__name__
    raise MAIInputError(
        f"The message holds a block that cannot be asked about ({named}); give text and images."
    )


def _images(
    state: RunState, message: HumanMessage | None, access: ImageAccess
) -> tuple[list[ImageReference], dict[str, str]]:
    data: dict[str, str] = {}
    references: list[ImageReference] = []
    given = _given_images(state.get("images"), message, access)
    try:
        for decoded, reference in _within_limits(given):
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


def _given_images(
    images: Any, message: HumanMessage | None, access: ImageAccess
) -> Iterator[tuple[DecodedImage, str | None]]:
    """Yield each image, with where it is read again; None for one that is data."""
    if images is None or (isinstance(images, list | tuple) and not images):
        if message:
            _message_text(message)  # refuses what is neither image nor text
            for index, block in enumerate(message.content):
                if is_image_block(block):
                    decoded = _encoded(block_image(cast("Any", block), **access))
                    yield decoded, f"message:{message.id}/{index}"
        return
    for image in images if isinstance(images, list | tuple) else [images]:
        yield _given_image(image, access)


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
        raise MAIInputError(f"The answer type {wanted!r} is unknown; use one of {known}.")
    choices = _checked_choices(state.get("choices"))
    if not choices and wanted in {"auto", "choice"}:
        question, found = split_choices(question)
        choices = _checked_choices(found)
    if wanted == "auto":
        return question, choices, infer_answer_type(question, choices)
    return question, choices, cast("AnswerType", wanted)


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
