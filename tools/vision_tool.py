"""The agent's tool: it asks the cascade about images."""

import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, NotRequired, cast

import httpx
import PIL.Image
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.prebuilt import ToolRuntime
from langgraph.pregel.protocol import PregelProtocol
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import StreamMode
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..answers.schemas import json_schema
from ..models.images import ImageError, block_image, is_image_block
from ..nodes.review import waits_for_person
from ..nodes.state import (
    Fallback,
    FieldAnswer,
    MAIError,
    MAIInput,
    MAIInputError,
    ModelCall,
    Route,
    Value,
)

AnyMAI = PregelProtocol[Any, Any, Any, Any]
"""What `create_mai` or `create_strategy` returned, or a `RemoteGraph` of one."""

STORE = "vision_images"
"""The key of an agent's state where `VisionMiddleware` keeps the conversation's images."""

_DESCRIPTION = (
    "Ask about images: what they show, how many, which, where, a chart's values, a text's words. "
    "Two vision models answer together. Without `images`, it looks at the latest images of the "
    "conversation. Returns the answer, and how it was found."
)

Question = Annotated[
    str, Field(description="One question about the images, complete in itself.", min_length=1)
]
Images = Annotated[
    list[str] | None,
    Field(
        description=(
            "Which images: the numbers of images in the conversation ('2' for [image 2]), paths "
            "or URLs. Leave it out for the latest images of the conversation."
        )
    ),
]
Choices = Annotated[
    list[str] | None, Field(description="The options' texts of a multiple-choice question.")
]

# At most nine digits: Python reads no number of thousands of them.
_NUMBER = re.compile(r"\[?(?:image\s*)?#?(\d+)\]?", re.IGNORECASE)
_MOST_DIGITS = 9

_MODES: list[StreamMode] = ["custom", "values"]

# LangGraph knows the argument by its exact type, which an optional one would hide; without an agent
# there is none.
_NO_RUNTIME: Any = None


class VisionAnswer(TypedDict):
    """The artifact of the tool's message: plain data, without pixels.

    Attributes:
        answer: The answer, as people write it.
        value: The same as a typed value.
        route: How far the run went.
        fallback: Whose answer it is instead, see `MAIOutput`.
        confidence: The measured rate of right answers like this one, from 0 to 1; None where the
            pair was not calibrated.
        images: References of the images that were asked about: a path or URL, or the hash of what
            was given as data.
        calls: Every model call.
        fields: Of an answer in a schema, its fields, see `MAIOutput`.
    """

    answer: str
    value: Value
    route: Route
    fallback: Fallback | None
    confidence: float | None
    images: list[str]
    calls: list[ModelCall]
    fields: NotRequired[dict[str, FieldAnswer]]


class ImageStore(TypedDict):
    """The images of a conversation, as `VisionMiddleware` keeps them.

    Attributes:
        images: Content blocks by their references, in the order of their numbers.
        latest: References of the images that a question without any is about.
    """

    images: dict[str, dict[str, Any]]
    latest: list[str]


_STORED = TypeAdapter(ImageStore)


class ConversationImage(NamedTuple):
    """An image of a conversation.

    Attributes:
        reference: Its name: a path or URL, or the hash of its content.
        block: A content block with it.
    """

    reference: str
    block: dict[str, Any]


def create_vision_tool(
    mai: AnyMAI,
    *,
    name: str = "ask_about_images",
    description: str = _DESCRIPTION,
    schema: Any = None,
) -> BaseTool:
    """Make a tool that asks the cascade about images.

    An agent calls it with a question. The images are those that it names; else those of the newest
    human message; else the state's `images` key; else the conversation's latest ones. The tool's
    message is a short text with the answer and its route; its artifact is a `VisionAnswer`. A
    question that cannot be answered becomes a message with the reason, so that the agent can ask
    another way. `VisionMiddleware` brings this tool, and remembers images that a summary drops.

    The cascade runs as a subgraph of the agent: `stream(..., subgraphs=True)` shows its steps and
    tokens, and a parent's checkpointer and context reach it. Its events are the agent's own, with
    the `tool_call_id`, in `stream_mode="custom"`, and the tool's progress in "tools". Where no
    agent runs, the tool can be invoked with `question` and `images`; if the run then waits for a
    person (`review`), that is a `RuntimeError`.

    Args:
        mai: What `create_mai` or `create_strategy` returned. A `RemoteGraph` of one gets images as
            data, its threads are its own, and whatever fails there becomes a message too.
        name: The tool's name, as the agent's model sees it.
        description: What the agent's model is told about it.
        schema: A pydantic model or a JSON schema: the answer is an object, as JSON, agreed field by
            field.
    """
    form = None if schema is None else json_schema(schema)

    def ask(
        question: Question,
        images: Images = None,
        choices: Choices = None,
        runtime: ToolRuntime[Any, Any] = _NO_RUNTIME,
    ) -> tuple[str, VisionAnswer]:
        with _tool_errors():
            asked, references = _input(mai, question, images, choices, runtime, form)
            result: Any = {}
            for mode, event, *_ in mai.stream(asked, _config(mai, runtime), stream_mode=_MODES):
                result = _follow(mode, event, result, runtime)
            return _answer(references, result)

    async def aask(
        question: Question,
        images: Images = None,
        choices: Choices = None,
        runtime: ToolRuntime[Any, Any] = _NO_RUNTIME,
    ) -> tuple[str, VisionAnswer]:
        with _tool_errors():
            asked, references = _input(mai, question, images, choices, runtime, form)
            result: Any = {}
            config = _config(mai, runtime)
            async for mode, event, *_ in mai.astream(asked, config, stream_mode=_MODES):
                result = _follow(mode, event, result, runtime)
            return _answer(references, result)

    return StructuredTool.from_function(
        ask,
        aask,
        name=name,
        description=description,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def conversation_images(state: object) -> tuple[list[ConversationImage], list[ConversationImage]]:
    """Return all images of an agent's state in the order of their numbers, and the latest ones."""
    if not _field(state, STORE):
        return find_images(state)
    store = stored_images(state)
    kept = {name: ConversationImage(name, block) for name, block in store["images"].items()}
    return list(kept.values()), [kept[name] for name in store["latest"] if name in kept]


def stored_images(state: object) -> ImageStore:
    """Return what `VisionMiddleware` keeps in a state.

    Raises:
        MAIInputError: It holds something else there: on a server, anyone can write state.
    """
    try:
        return _STORED.validate_python(_field(state, STORE) or {"images": {}, "latest": []})
    except ValidationError as error:
        raise MAIInputError(
            f"The state holds no {STORE!r} as VisionMiddleware writes it; start a new thread."
        ) from error


def find_images(
    state: object, known: Container[str] = ()
) -> tuple[list[ConversationImage], list[ConversationImage]]:
    """Find the images that an agent's state holds besides those of `VisionMiddleware`.

    Args:
        state: It may have `images` of its own, and messages of people and tools with images.
        known: References of images that were found before.

    Returns:
        All of them, each once; and the latest: those of the newest human message, else those of
        `images` or of the latest message where one of them is not known yet.

    Raises:
        MAIInputError: One of `images` is no path, URL, bytes or PIL image.
    """
    messages = [
        m for m in _field(state, "messages") or [] if isinstance(m, HumanMessage | ToolMessage)
    ]
    shown = [list(images_of(message).values()) for message in messages]
    people = [isinstance(message, HumanMessage) for message in messages]
    newest = max((i for i, human in enumerate(people) if human), default=None)
    declared = _declared(state)
    new = [
        images
        for images in [*shown, declared]
        if any(image.reference not in known for image in images)
    ]
    everything = {image.reference: image for images in [declared, *shown] for image in images}
    latest = (newest is not None and shown[newest]) or (new[-1] if new else [])
    return list(everything.values()), latest


def images_of(message: BaseMessage) -> dict[int, ConversationImage]:
    """Return the images of a message, by the positions of their blocks."""
    return {
        index: _named(cast("dict[str, Any]", block), f"message:{message.id}/{index}")
        for index, block in enumerate(message.content)
        if is_image_block(block)
    }


def _declared(state: object) -> list[ConversationImage]:
    """Return the state's own `images`, a list of them or a single one."""
    images = _field(state, "images")
    if not images:
        return []
    several = images if isinstance(images, list | tuple) else [images]
    return [_given(image, f"images/{number}") for number, image in enumerate(several, start=1)]


def _chosen(images: list[str] | None, state: object) -> list[ConversationImage]:
    """Return the images that are meant."""
    conversation, latest = conversation_images(state)
    return [_meant(image.strip(), conversation) for image in images] if images else latest


def _meant(image: str, conversation: Sequence[ConversationImage]) -> ConversationImage:
    """Return a path or URL as it is, or the image of the conversation that a number names."""
    if not (match := _NUMBER.fullmatch(image)):
        return _given(image, "data")
    digits = match[1]
    number = int(digits) if len(digits) <= _MOST_DIGITS else None
    if number is None or not 0 < number <= len(conversation):
        have = f"holds {len(conversation)} images" if conversation else "holds no images"
        named = number if number is not None else f"{digits[:_MOST_DIGITS]}..."
        raise MAIInputError(f"There is no image {named}: the conversation {have}.")
    return conversation[number - 1]


def _given(image: Any, position: str) -> ConversationImage:
    if not isinstance(image, str | os.PathLike | bytes | PIL.Image.Image):
        kind = type(image).__name__
        raise MAIInputError(f"An image is a path, a URL, bytes or a PIL image, not {kind}.")
    block = {
        "type": "image",
        "image": os.fspath(image) if isinstance(image, os.PathLike) else image,
    }
    return _named(block if isinstance(block["image"], str) else block_image(block).block, position)


def _named(block: dict[str, Any], position: str) -> ConversationImage:
    """Name an image by its path or URL, or by the hash of its content.

    One that cannot be read is named by its position: only who asks about it needs to know why.
    """
    for key in ("image_url", "url", "image", "path"):
        value = block.get(key)
        name = value.get("url") if isinstance(value, Mapping) else value
        if isinstance(name, str) and name and name[:5].lower() != "data:":
            return ConversationImage(name, block)
    try:
        # Files are for who asks about them, and for the cascade, which knows what is open.
        return ConversationImage(block_image(block, image_root=os.devnull).digest, block)
    except ImageError:
        return ConversationImage(position, block)


def _field(state: object, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _input(
    mai: AnyMAI,
    question: str,
    images: list[str] | None,
    choices: list[str] | None,
    runtime: ToolRuntime[Any, Any] | None,
    schema: dict[str, Any] | None,
) -> tuple[MAIInput, list[str]]:
    """Return what the cascade is asked, and references of the images in it."""
    chosen = _chosen(images, runtime.state if runtime is not None else None)
    asked: MAIInput = {"question": question}
    if isinstance(mai, RemoteGraph):
        asked["images"] = [_as_data(image) for image in chosen]
    elif chosen:
        content: list[str | dict[Any, Any]] = [image.block for image in chosen]
        asked["messages"] = [HumanMessage(content)]
    if choices:
        asked["choices"] = choices
    if schema is not None:
        asked["schema"] = schema
    return asked, [image.reference for image in chosen]


def _as_data(image: ConversationImage) -> str:
    """Return what another machine can read: an http(s) URL as it is, all else as a data URI."""
    if image.reference[:7].lower() in {"http://", "https:/"}:
        return image.reference
    decoded = block_image(image.block)
    return f"data:{decoded.mime_type};base64,{decoded.base64}"


def _config(mai: AnyMAI, runtime: ToolRuntime[Any, Any] | None) -> RunnableConfig | None:
    if runtime is None:
        return None
    called = {"tool_call_id": runtime.tool_call_id}
    config: RunnableConfig = {**runtime.config}
    config["metadata"] = {**(config.get("metadata") or {}), **called}
    if isinstance(mai, RemoteGraph):  # the agent's thread and streams are none of that server's
        config.pop("configurable", None)
    return config


def _follow(mode: str, event: Any, result: Any, runtime: ToolRuntime[Any, Any] | None) -> Any:
    """Pass an event on, to the agent's stream and as the tool's progress; return the values."""
    if mode == "values":
        return event
    if runtime is not None:
        runtime.stream_writer(event)
        runtime.emit_output_delta(event)
    return result


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn whatever cannot be answered into an error that becomes the tool's message."""
    try:
        yield
    except (MAIError, MAIInputError, ImageError) as error:
        raise ToolException(str(error)) from error
    except (RemoteException, httpx.HTTPError) as error:
        raise ToolException(f"The remote graph failed: {_remote_reason(error)}") from error


def _remote_reason(error: Exception) -> str:
    """Return what a server tells of a failure: at best a message, at least a class name."""
    told = error.args[0] if error.args else None
    if isinstance(told, Mapping):
        told = ": ".join(str(told[key]) for key in ("error", "message") if told.get(key))
    return str(told or type(error).__name__)


def _answer(images: list[str], result: Mapping[str, Any]) -> tuple[str, VisionAnswer]:
    if result.get("error"):
        raise ToolException(result["error"])
    if waits_for_person(result):
        raise RuntimeError(
            "The run waits for a person, which the tool alone cannot do: call it in an agent with "
            "a checkpointer, or make the graph without `review`."
        )
    artifact: VisionAnswer = {
        "answer": result["answer"],
        "value": result["value"],
        "route": result["route"],
        "fallback": result.get("fallback"),
        "confidence": result.get("confidence"),
        "images": images,
        "calls": result.get("calls") or [],
    }
    if fields := result.get("fields"):
        artifact["fields"] = fields
    lines = [f"answer: {artifact['answer']}", f"route: {artifact['route']}"]
    if artifact["confidence"] is not None:
        lines.append(f"confidence: {artifact['confidence']:.2f}")
    if artifact["fallback"] is not None:
        lines.append(f"fallback: {artifact['fallback']}")
    return "\n".join(lines), artifact
