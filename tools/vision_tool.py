"""The agent's tool: it asks the cascade about images."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast

import PIL.Image
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolRuntime
from pydantic import Field
from typing_extensions import TypedDict

from ..models.images import is_image_block
from ..nodes.review import waits_for_person
from ..nodes.state import (
    Fallback,
    MAIError,
    MAIInput,
    MAIInputError,
    MAIOutput,
    ModelCall,
    Route,
    Value,
)

_MOST_DIGITS = 9

_DESCRIPTION = (
    "Ask about images: what they show, how many, which, where, a chart's values, a text's words. "
    "Two vision models answer together. Without `images`, it looks at the latest images of the "
    "conversation. Returns the answer, and how sure it is."
)

Question = Annotated[
    str, Field(description="One question about the images, complete in itself.", min_length=1)
]
Images = Annotated[
    list[str] | None,
    Field(
        description=(
            "Which images: paths, URLs, or the numbers of images in the conversation ('1' for "
            "the first). Leave it out for the latest images of the conversation."
        )
    ),
]
Choices = Annotated[
    list[str] | None, Field(description="The options' texts of a multiple-choice question.")
]


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
        confidence: Share of such answers that were right, if the cascade is calibrated.
        images: References of the images that were asked about.
        calls: Every model call.
    """

    answer: str
    value: Value
    route: Route
    fallback: Fallback | None
    confidence: float | None
    images: list[str]
    calls: list[ModelCall]


def create_vision_tool(
    mai: CompiledStateGraph[Any, Any, Any, Any],
    *,
    name: str = "ask_about_images",
    description: str = _DESCRIPTION,
) -> BaseTool:
    """Make a tool that asks the cascade about images.

    An agent calls it with a question. The images are those that it names, or else those of the
    agent's state: its `images` key, or the latest message with images. The tool's message is a
    short text with the answer, the route and the confidence; its artifact is a `VisionAnswer`. A
    question that cannot be answered becomes a message with the reason, so that the agent can ask
    another way.

    The cascade runs as a subgraph of the agent: `stream(..., subgraphs=True)` shows its steps,
    tokens and events, and a parent's checkpointer and context reach it. Where no agent runs, the
    tool can be invoked with `question` and `images`; if the run then waits for a person (`review`),
    that is a `RuntimeError`.

    Args:
        mai: What `create_mai` or `create_strategy` returned.
        name: The tool's name, as the agent's model sees it.
        description: What the agent's model is told about it.
    """

    def ask(
        question: Question,
        images: Images = None,
        choices: Choices = None,
        runtime: ToolRuntime[Any, Any] = _NO_RUNTIME,
    ) -> tuple[str, VisionAnswer]:
        try:
            asked, references = _input(question, images, choices, runtime)
            result = mai.invoke(asked, _config(runtime))
        except (MAIError, MAIInputError) as error:
            raise ToolException(str(error)) from error
        return _answer(references, cast("MAIOutput", result))

    async def aask(
        question: Question,
        images: Images = None,
        choices: Choices = None,
        runtime: ToolRuntime[Any, Any] = _NO_RUNTIME,
    ) -> tuple[str, VisionAnswer]:
        try:
            asked, references = _input(question, images, choices, runtime)
            result = await mai.ainvoke(asked, _config(runtime))
        except (MAIError, MAIInputError) as error:
            raise ToolException(str(error)) from error
        return _answer(references, cast("MAIOutput", result))

    return StructuredTool.from_function(
        ask,
        aask,
        name=name,
        description=description,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _input(
    question: str,
    images: list[str] | None,
    choices: list[str] | None,
    runtime: ToolRuntime[Any, Any] | None,
) -> tuple[MAIInput, list[str]]:
    """Return what the cascade is asked, and references of the images in it."""
    chosen = _chosen(images, runtime.state if runtime is not None else None)
    asked: MAIInput = {"question": question}
    if chosen:
        content: list[str | dict[Any, Any]] = [image.block for image in chosen]
        asked["messages"] = [HumanMessage(content)]
    if choices:
        asked["choices"] = choices
    return asked, [image.reference for image in chosen]


class _Image(NamedTuple):
    """An image that can be asked about.

    Attributes:
        block: A content block with it.
        reference: A path or URL, or where it stands: `message:ID/BLOCK` or `images/NUMBER`.
    """

    block: dict[Any, Any]
    reference: str


def _chosen(images: list[str] | None, state: object) -> list[_Image]:
    """Return the images that are meant."""
    declared = _declared(state)
    messages = [
        [
            _Image(cast("dict[Any, Any]", block), f"message:{message.id}/{index}")
            for index, block in enumerate(message.content)
            if is_image_block(block)
        ]
        for message in _messages(state)
    ]
    if images:
        conversation = [*declared, *(image for found in messages for image in found)]
        return [_named(image.strip(), conversation) for image in images]
    return declared or next((found for found in reversed(messages) if found), [])


def _named(image: str, conversation: Sequence[_Image]) -> _Image:
    """Return a path or URL as it is, or the image of the conversation that a number names."""
    if not image.isdecimal():
        return _own(image, "data")
    # Python reads no number of thousands of digits.
    number = int(image) if len(image) <= _MOST_DIGITS else None
    if number is None or not 0 < number <= len(conversation):
        have = f"holds {len(conversation)} images" if conversation else "holds no images"
        named = number if number is not None else f"{image[:_MOST_DIGITS]}..."
        raise MAIInputError(f"There is no image {named}: the conversation {have}.")
    return conversation[number - 1]


def _declared(state: object) -> list[_Image]:
    """Return the state's own `images`, a list of them or a single one."""
    images = _field(state, "images")
    if not images:
        return []
    several = images if isinstance(images, list | tuple) else [images]
    return [_own(image, f"images/{number}") for number, image in enumerate(several, start=1)]


def _own(image: Any, position: str) -> _Image:
    """Return an image by its path or URL; where it is data, its position stands for it."""
    if not isinstance(image, str | os.PathLike | bytes | PIL.Image.Image):
        kind = type(image).__name__
        raise MAIInputError(f"An image is a path, a URL, bytes or a PIL image, not {kind}.")
    is_name = isinstance(image, os.PathLike) or (
        isinstance(image, str) and image[:5].lower() != "data:"
    )
    return _Image({"type": "image", "image": image}, str(image) if is_name else position)


def _messages(state: object) -> Sequence[BaseMessage]:
    """Return the messages whose images people or tools have shown."""
    messages = _field(state, "messages") or []
    return [message for message in messages if isinstance(message, HumanMessage | ToolMessage)]


def _field(state: object, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _config(runtime: ToolRuntime[Any, Any] | None) -> RunnableConfig | None:
    return runtime.config if runtime is not None else None


def _answer(images: list[str], result: MAIOutput) -> tuple[str, VisionAnswer]:
    if waits_for_person(result):
        raise RuntimeError(
            "The run waits for a person, which the tool alone cannot do: call it in an agent with "
            "a checkpointer, or make the graph without `review`."
        )
    confidence = result["confidence"]
    artifact: VisionAnswer = {
        "answer": result["answer"],
        "value": result["value"],
        "route": result["route"],
        "fallback": result["fallback"],
        "confidence": confidence,
        "images": images,
        "calls": result["calls"],
    }
    lines = [
        f"answer: {result['answer']}",
        f"route: {result['route']}",
        *([] if confidence is None else [f"confidence: {confidence:.2f}"]),
    ]
    return "\n".join(lines), artifact
