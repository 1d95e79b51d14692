"""A tool with which an agent asks the cascade about images."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolRuntime
from pydantic import Field
from typing_extensions import TypedDict

from ..models.images import ImageError, image_reference, message_images
from ..nodes.errors import MAIError, MAIInputError
from ..nodes.review import waits_for_person
from ..nodes.state import Fallback, MAIInput, MAIOutput, ModelCall, Route

Confidence = Literal["high", "medium", "low"]

_MOST_DIGITS = 9

_DESCRIPTION = (
    "Ask about images: what they show, how many, which, where, a chart's values, a text's words. "
    "Two vision models answer together. Without `images`, it looks at the latest pictures of the "
    "conversation. Returns the answer, and how sure it is."
)

Question = Annotated[
    str, Field(description="One question about the images, complete in itself.", min_length=1)
]
Images = Annotated[
    list[str] | None,
    Field(
        description=(
            "Which images: paths, URLs, or the numbers of pictures in the conversation ('1' for "
            "the first). Leave it out for the latest pictures of the conversation."
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
    """The artifact of the tool's message: plain data, without pictures.

    Attributes:
        answer: The answer, as people write it.
        route: How far the run went.
        fallback: What stood in, see `MAIOutput`.
        confidence: "high" where both models agree, "medium" where the large one decided after it
            read the small one's reasoning, "low" where the step that should have answered could
            not.
        images: References of the images that were asked about.
        calls: Every model call.
    """

    answer: str
    route: Route
    fallback: Fallback | None
    confidence: Confidence
    images: list[str]
    calls: list[ModelCall]


def create_vision_tool(
    mai: CompiledStateGraph[Any, Any, Any, Any],
    *,
    name: str = "ask_about_images",
    description: str = _DESCRIPTION,
) -> BaseTool:
    """Make a tool that asks the cascade.

    An agent calls it with a question. The images are those that it names, or else those of the
    agent's state: its `images` key, or the latest message with pictures. The tool's message is a
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
            given = _given(question, images, choices, runtime)
            result = mai.invoke(given, _config(runtime))
        except (MAIError, MAIInputError, ImageError) as error:
            raise ToolException(str(error)) from error
        return _said(given, cast("MAIOutput", result))

    async def aask(
        question: Question,
        images: Images = None,
        choices: Choices = None,
        runtime: ToolRuntime[Any, Any] = _NO_RUNTIME,
    ) -> tuple[str, VisionAnswer]:
        try:
            given = await asyncio.to_thread(_given, question, images, choices, runtime)
            result = await mai.ainvoke(given, _config(runtime))
        except (MAIError, MAIInputError, ImageError) as error:
            raise ToolException(str(error)) from error
        return _said(given, cast("MAIOutput", result))

    return StructuredTool.from_function(
        ask,
        aask,
        name=name,
        description=description,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _given(
    question: str,
    images: list[str] | None,
    choices: list[str] | None,
    runtime: ToolRuntime[Any, Any] | None,
) -> MAIInput:
    state = runtime.state if runtime is not None else None
    given: MAIInput = {"question": question, "images": _references(images, state)}
    if choices:
        given["choices"] = choices
    return given


def _references(images: list[str] | None, state: object) -> list[str]:
    """The images that are meant, without their pixels."""
    if images:
        return [_reference(image, state) for image in images]
    if declared := _declared(state):
        return declared
    for message in reversed(_messages(state)):
        if found := message_images(message):
            return found
    return []


def _reference(image: str, state: object) -> str:
    """A path or URL as it is, or the picture of the conversation that a number names."""
    if not image.strip().isdecimal():
        return image_reference(image)
    pictures = _declared(state)
    for message in _messages(state):
        pictures += message_images(message)
    digits = image.strip()
    # Python reads no number of thousands of digits.
    number = int(digits) if len(digits) <= _MOST_DIGITS else None
    if number is None or not 0 < number <= len(pictures):
        have = f"holds {len(pictures)} pictures" if pictures else "holds no pictures"
        named = number if number is not None else f"{digits[:_MOST_DIGITS]}..."
        raise MAIInputError(f"There is no picture {named}: the conversation {have}.")
    return pictures[number - 1]


def _declared(state: object) -> list[str]:
    """References of the state's own `images`, a list of them or a single one."""
    images = _field(state, "images")
    if not images:
        return []
    several = images if isinstance(images, list | tuple) else [images]
    return [image_reference(image) for image in several]


def _messages(state: object) -> Sequence[BaseMessage]:
    """The messages whose pictures people or tools have shown."""
    messages = _field(state, "messages") or []
    return [message for message in messages if isinstance(message, HumanMessage | ToolMessage)]


def _field(state: object, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _config(runtime: ToolRuntime[Any, Any] | None) -> RunnableConfig | None:
    return runtime.config if runtime is not None else None


def _said(given: MAIInput, result: MAIOutput) -> tuple[str, VisionAnswer]:
    if waits_for_person(result):
        raise RuntimeError(
            "The run waits for a person, which the tool alone cannot do: call it in an agent with "
            "a checkpointer, or make the graph without `review`."
        )
    confidence = _confidence(result["route"], result["fallback"])
    said: VisionAnswer = {
        "answer": result["answer"],
        "route": result["route"],
        "fallback": result["fallback"],
        "confidence": confidence,
        "images": given["images"],
        "calls": result["calls"],
    }
    lines = [
        f"answer: {result['answer']}",
        f"route: {result['route']}",
        f"confidence: {confidence}",
    ]
    return "\n".join(lines), said


def _confidence(route: Route, fallback: Fallback | None) -> Confidence:
    if fallback == "review":
        return "high"
    if fallback is not None:
        return "low"
    return "medium" if route == "transferred" else "high"
