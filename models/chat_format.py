"""LangChain messages in the form that chat templates of vision-language checkpoints take."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from .errors import ModelError
from .images import is_image_block

_Image = TypeVar("_Image")

Turn = dict[str, Any]
"""One entry for a chat template: role, content (a list of text and image parts), tool_calls."""

# What a model wrote besides text; templates of earlier turns do not show it, or take it from
# tool_calls.
_SILENT = {
    "reasoning", "thinking", "redacted_thinking", "tool_call", "tool_call_chunk",
    "invalid_tool_call", "tool_use", "function_call",
}  # fmt: skip
_TEXT = {"text", "input_text", "output_text", "text-plain"}


def chat_turns(
    messages: Sequence[BaseMessage], load: Callable[[Mapping[str, Any]], _Image]
) -> tuple[list[Turn], list[_Image]]:
    """Translate messages for a chat template.

    Pictures in tool messages move to a user message after them, because few templates show
    pictures anywhere else.

    Args:
        messages: The conversation.
        load: Loads the picture of a content block.

    Returns:
        The turns, and the pictures in the order in which the turns name them.

    Raises:
        ModelError: No messages, or content that a vision-language model cannot read.
        ImageError: What `load` raises.
    """
    if not messages:
        raise ModelError("There is no message to answer; give at least one.")
    turns: list[Turn] = []
    images: list[_Image] = []
    shown_by_tools: list[Turn] = []
    for message in messages:
        role = _role(message)
        if role != "tool" and shown_by_tools:
            turns.append({"role": "user", "content": shown_by_tools})
            shown_by_tools = []
        parts: list[Turn] = []
        for block in _blocks(message):
            if is_image_block(block):
                images.append(load(block))
                (shown_by_tools if role == "tool" else parts).append({"type": "image"})
            elif (text := _text(block, role)) is not None:
                parts.append({"type": "text", "text": text})
        turns.append({"role": role, "content": parts, **_tool_calls(message)})
    if shown_by_tools:
        turns.append({"role": "user", "content": shown_by_tools})
    return turns, images


def turn_text(turn: Turn) -> list[str]:
    """The texts of a turn."""
    return [part["text"] for part in turn["content"] if part["type"] == "text"]


def _role(message: BaseMessage) -> str:
    match message:
        case ChatMessage():
            return message.role
        case HumanMessage():
            return "user"
        case AIMessage():
            return "assistant"
        case SystemMessage():
            return "system"
        case ToolMessage() | FunctionMessage():
            return "tool"
    raise ModelError(f"A message of type {message.type!r} cannot be put into a prompt.")


def _blocks(message: BaseMessage) -> Iterable[Mapping[str, Any]]:
    if isinstance(message.content, str):
        yield {"type": "text", "text": message.content}
        return
    for block in message.content:
        yield {"type": "text", "text": block} if isinstance(block, str) else block


def _text(block: Mapping[str, Any], role: str) -> str | None:
    """The text of a block, None for what a model wrote besides text."""
    kind = block.get("type")
    if (kind in _TEXT or kind is None) and isinstance(block.get("text"), str):
        return _encodable(str(block["text"]), role)
    if role == "assistant" and kind in _SILENT:
        return None
    raise ModelError(
        f"A {role} message holds a content block of type {kind!r}; vision-language models read "
        "text and images."
    )


def _encodable(text: str, role: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ModelError(
            f"A {role} message holds half a character ({text[error.start]!a} at position "
            f"{error.start}): its text was decoded wrongly, so read it as UTF-8."
        ) from error
    return text


def _tool_calls(message: BaseMessage) -> dict[str, Any]:
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return {}
    functions = [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls]
    return {"tool_calls": [{"type": "function", "function": function} for function in functions]}
