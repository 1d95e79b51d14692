"""Vision for any agent: middleware that keeps a conversation's images and brings the tool.

It needs the extra `agents`. Summaries and chat pages drop images; the middleware keeps each one, by
the hash of its content, in a key of the agent's state that is its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.runtime import Runtime
from typing_extensions import override

from .vision_tool import (
    STORE,
    AnyMAI,
    ImageStore,
    create_vision_tool,
    find_images,
    images_of,
    stored_images,
)

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
except ImportError as error:
    raise ImportError(
        f"VisionMiddleware needs langchain ({error}); install it with: "
        'pip install "langgraph-mai[agents]"'
    ) from error


def _merge(former: ImageStore, writes: Sequence[ImageStore]) -> ImageStore:
    """Add images; the latest ones are those of the last write."""

    def add(store: Any, write: ImageStore) -> ImageStore:  # at first an empty one
        images = {**store.get("images", {}), **write["images"]}
        return {"images": images, "latest": write["latest"]}

    return reduce(add, writes, former)


class VisionState(AgentState[Any]):
    """An agent's state with the images of its conversation."""

    vision_images: NotRequired[Annotated[ImageStore, DeltaChannel(_merge, dict), PrivateStateAttr]]


class VisionMiddleware(AgentMiddleware[VisionState, Any, Any]):
    """Gives an agent eyes, whether or not its own model has any.

    It brings the tool `ask_about_images`, numbers the images in the text that the planner reads
    ("[image 2]"), and remembers them when `SummarizationMiddleware` drops their messages; they are
    stored once, whatever the length of the thread. For `create_agent` and deepagents.

    Example:
        >>> agent = create_agent("openai:gpt-5", middleware=[VisionMiddleware(mai)])

    Args:
        mai: What `create_mai` or `create_strategy` returned, or a `RemoteGraph` of one.
        planner_sees: Whether the planner gets the images too. False leaves it their numbers alone:
            for language models that see nothing, and for those that are paid by the token.
    """

    state_schema = VisionState

    def __init__(self, mai: AnyMAI, *, planner_sees: bool = True) -> None:
        super().__init__()
        self.planner_sees = planner_sees
        self.tools = [create_vision_tool(mai)]

    @override
    def before_agent(self, state: VisionState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return _remember(state)

    @override
    async def abefore_agent(
        self, state: VisionState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        return await asyncio.to_thread(_remember, state)

    @override
    def before_model(self, state: VisionState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return _remember(state)

    @override
    async def abefore_model(
        self, state: VisionState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        return await asyncio.to_thread(_remember, state)

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._numbered(request))

    @override
    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(await asyncio.to_thread(self._numbered, request))

    def _numbered(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the planner's prompt with the images' numbers in it."""
        stored = stored_images(request.state)["images"]
        names = {reference: f"[image {number}]" for number, reference in enumerate(stored, 1)}
        shown: set[str] = set()
        messages = [self._with_names(message, names, shown) for message in request.messages]
        request = request.override(messages=messages)
        if hidden := [name for name in names.values() if name not in shown]:
            note = f"Shown earlier in this conversation: {', '.join(hidden)}."
            own = request.system_message
            before: list[Any] = (
                [*own.content_blocks, {"type": "text", "text": "\n\n"}] if own else []
            )
            text = {"type": "text", "text": note}
            request = request.override(system_message=SystemMessage([*before, text]))
        return request

    def _with_names(
        self, message: AnyMessage, names: Mapping[str, str], shown: set[str]
    ) -> AnyMessage:
        if isinstance(message.content, str) or not isinstance(message, HumanMessage | ToolMessage):
            return message
        images = images_of(message)
        content: Any = []
        for index, block in enumerate(message.content):
            if index in images:
                name = names.get(images[index].reference, "[image]")
                shown.add(name)
                content.append({"type": "text", "text": name})
            if self.planner_sees or isinstance(block, str) or block.get("type") == "text":
                content.append(block)
            elif index not in images:
                kind = " ".join(str(block[key]) for key in ("type", "mime_type") if block.get(key))
                content.append({"type": "text", "text": f"[{kind}: not shown, as it is no image]"})
        if not self.planner_sees:  # a list of texts is more than some language models take
            content = "\n".join(b if isinstance(b, str) else b["text"] for b in content)
        return message.model_copy(update={"content": content})


def _remember(state: VisionState) -> dict[str, Any] | None:
    """Return the update that adds what the store does not hold yet; None for nothing new."""
    store = stored_images(state)
    found, latest = find_images(state, known=store["images"])
    new = {
        image.reference: image.block for image in found if image.reference not in store["images"]
    }
    names = [image.reference for image in latest] or store["latest"]
    return {STORE: {"images": new, "latest": names}} if new or names != store["latest"] else None
