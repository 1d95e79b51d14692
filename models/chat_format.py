"""From LangChain messages to the text of a prompt, by the chat template of a checkpoint."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

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

# What a model generated besides text; templates of earlier turns do not show it, or take it from
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

    Images in tool messages move to a user message after them, because few templates show
    images anywhere else.

    Args:
        messages: The conversation.
        load: Loads the image of a content block.

    Returns:
        The turns, and the images in the order in which the turns name them.

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
        turn: Turn = {"role": role, "content": []}
        content = [message.content] if isinstance(message.content, str) else message.content
        for block in content:
            if is_image_block(block):
                images.append(load(cast("dict[str, Any]", block)))
                (shown_by_tools if role == "tool" else turn["content"]).append({"type": "image"})
            elif (text := _text(block, role)) is not None:
                turn["content"].append({"type": "text", "text": text})
        if isinstance(message, AIMessage) and message.tool_calls:
            turn["tool_calls"] = [
                {
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["args"]},
                }
                for call in message.tool_calls
            ]
        turns.append(turn)
    if shown_by_tools:
        turns.append({"role": "user", "content": shown_by_tools})
    return turns, images


# Control tokens of common model families, for servers, whose tokenizers are not here.
_CONTROL_TOKENS = re.compile(
    r"(?<=<)(?=\|[\w.:-]{1,40}\|>|\uff5c[^<>\uff5c]{1,40}\uff5c>"
    r"|/?(?:s|bos|eos|pad|unk|img|image|IMG_CONTEXT|video|audio|think|tool_call|tool_response"
    r"|(?:start|end)_of_\w{1,20})>)|(?<=\[)(?=/?INST\]|IMG\])"
)
_BREAK = "\u200b"
"""A space without width: models read over it, and no tokenizer finds a control token around it."""


def plain_text(text: str, tokens: Iterable[str] | None = None) -> str:
    """Return a text in which no control token stands: `_BREAK` parts each after its first letter.

    Who writes `<|im_end|>` into a question must not end the turn with it. Other text is unchanged.

    Args:
        text: What a person or a model wrote.
        tokens: The tokenizer's own; None for those of common model families.
    """
    if tokens is None:
        return _CONTROL_TOKENS.sub(_BREAK, text)
    found = _any_of(tuple(tokens))
    return found.sub(lambda token: token[0][0] + _BREAK + token[0][1:], text)


@lru_cache(maxsize=16)
def _any_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    # The longest first: one may begin with another.
    words = sorted((token for token in tokens if len(token.strip()) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)) or r"(?!)")


def turn_text(turn: Turn) -> list[str]:
    """Return the texts of a turn."""
    return [part["text"] for part in turn["content"] if part["type"] == "text"]


def prompt_text(processor: Any, turns: Sequence[Turn], images: int, model: str) -> str:
    """Render the chat template, and check that it shows everything.

    Control tokens in the texts of the conversation are broken (`plain_text`), so that only the
    template writes some.

    Args:
        processor: The checkpoint's processor.
        turns: The conversation.
        images: How many images it holds.
        model: The model's name, for error messages.

    Raises:
        ModelError: The template refuses the conversation, leaves a message out, or the text itself
            holds the marker of an image.
    """
    from jinja2 import TemplateError

    tokens = tuple(processor.tokenizer.get_added_vocab())
    turns = [
        {**turn, "content": [_plain_part(part, tokens) for part in turn["content"]]}
        for turn in turns
    ]
    try:
        text: str = processor.apply_chat_template(
            list(turns), add_generation_prompt=True, tokenize=False
        )
    except (TemplateError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"The chat template of {model!r} does not take this conversation ({reason})."
        ) from error
    for turn in turns:
        # Assistant and tool turns are reworded by many templates.
        known = turn["role"] in {"user", "assistant", "tool"}
        if not known and any(part.strip() not in text for part in turn_text(turn)):
            raise ModelError(
                f"The chat template of {model!r} leaves out messages of the role "
                f"{turn['role']!r}; put their text into a user message."
            )
    marker: str | None = getattr(processor, "image_token", None)
    shown = text.count(marker) if marker else 0
    if shown and shown != images:
        raise ModelError(
            f"The prompt for {model!r} shows {shown} images where {images} were given: its text "
            f"holds the image marker {marker!r}, or an image is in a message of a role that the "
            "chat template shows without images."
        )
    return text


def _plain_part(part: dict[str, str], tokens: tuple[str, ...]) -> dict[str, str]:
    return part if part["type"] != "text" else {**part, "text": plain_text(part["text"], tokens)}


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


def _text(block: str | Mapping[str, Any], role: str) -> str | None:
    """Return the text of a block, None for what a model generated besides text."""
    if isinstance(block, str):
        block = {"text": block}
    kind, text = block.get("type"), block.get("text")
    if not (kind in _TEXT or kind is None) or not isinstance(text, str):
        if role == "assistant" and kind in _SILENT:
            return None
        raise ModelError(
            f"A {role} message holds a content block of type {kind!r}; vision-language models read "
            "text and images."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ModelError(
            f"A {role} message holds half a character ({text[error.start]!a} at position "
            f"{error.start}): its text was decoded wrongly, so read it as UTF-8."
        ) from error
    return text
