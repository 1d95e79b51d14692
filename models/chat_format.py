"""From LangChain messages to the text of a prompt, by the chat template of a checkpoint.

Control tokens of the prompt are the template's alone: where the text of a message holds one, the
prompt's text is cut there by a mark, and what is left and right of it is tokenized apart, so that
the model reads the characters.
"""

import re
from collections.abc import Callable, Mapping, Sequence
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

MARK = "\ufdd0"
"""Where the text of a prompt is cut: a noncharacter of Unicode, which no text holds."""

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
    r"(?<=<)(?=\|[\w.:-]{1,40}\|?>|\w{1,40}\|>|\uff5c[^<>\uff5c]{1,40}\uff5c>"
    r"|/?(?:s|bos|eos|pad|unk|img|image|IMG_CONTEXT|video|audio|think|tool_call|tool_response"
    r"|image_soft_token|fake_token_around_image|global-img|im_start|im_end|im_patch"
    r"|(?:start|end)_of_\w{1,20})>)"
    r"|(?<=\[)(?=/?(?:INST|IMG(?:_BREAK|_END)?|SYSTEM_PROMPT|THINK"
    r"|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
_BREAK = "\u200b"
"""A space without width: models read over it, and no tokenizer finds a control token around it."""


def plain_text(text: str) -> str:
    """Return a text for a server, in which no control token of the common model families stands.

    `_BREAK` parts each after its first letter. Who writes `<|im_end|>` into a question must not end
    the turn with it. Other text is unchanged.
    """
    return _CONTROL_TOKENS.sub(_BREAK, text)


def plain_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts of a message for a server: see `plain_text`.

    Its template may put them together, so that a control token begins in one and ends in another.
    """
    plain = [plain_text(text) for text in texts]
    joined = "".join(plain)
    return plain if plain_text(joined) == joined else [_BREAK + text for text in plain]


def turn_text(turn: Turn) -> list[str]:
    """Return the texts of a turn."""
    return [part["text"] for part in turn["content"] if part["type"] == "text"]


def prompt_text(processor: Any, turns: Sequence[Turn], images: int, model: str) -> str:
    """Render the chat template, and check that it shows everything.

    A `MARK` cuts each control token that the text of a message holds; `tokenize` knows it.

    Args:
        processor: The checkpoint's processor.
        turns: The conversation.
        images: How many images it holds.
        model: The model's name, for error messages.

    Raises:
        ModelError: The template refuses the conversation, or leaves a message or an image out.
    """
    from jinja2 import TemplateError

    turns = _without_control_tokens(processor, turns)
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
            f"The prompt for {model!r} shows {shown} images where {images} were given: one is in a "
            "message of a role that the chat template shows without images; put it into a user "
            "message."
        )
    return text


def tokenize(tokenizer: Any, text: str, **settings: Any) -> dict[str, list[Any]]:
    """Tokenize the text of a prompt, cut at its marks.

    Args:
        tokenizer: The checkpoint's.
        text: What `prompt_text` returned, or a part of it.
        settings: Of the tokenizer's call.

    Returns:
        What the tokenizer returns; offsets are those in the text without its marks.
    """
    whole: dict[str, list[Any]] = {}
    before = 0
    for part in text.split(MARK):
        encoded = tokenizer(part, **settings)
        for key, values in encoded.items():
            if key == "offset_mapping":
                values = [(before + first, before + last) for first, last in values]  # noqa: PLW2901
            whole.setdefault(key, []).extend(values)
        before += len(part)
        settings["add_special_tokens"] = False  # a text begins once
    return whole


def _without_control_tokens(processor: Any, turns: Sequence[Turn]) -> list[Turn]:
    """Cut what a tokenizer would read as a control token, in all text of a conversation."""
    added = processor.tokenizer.added_tokens_decoder.values()
    names = {str(token) for token in added} | {getattr(processor, "image_token", None) or ""}
    # Some tokenizers add plain words or white space, which mean what they say.
    control = [re.escape(name) for name in names if len(name) > 1 and re.search(r"[^\w\s]", name)]
    pattern = re.compile("|".join(sorted(control, key=len, reverse=True)) or r"(?!)")

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cut(one) for key, one in value.items()}
        if isinstance(value, list):
            return [cut(one) for one in value]
        while isinstance(value, str) and pattern.search(value):
            value = pattern.sub(lambda found: found[0][0] + MARK + found[0][1:], value)
        return value

    made: list[Turn] = cut(list(turns))
    for turn in made:
        if pattern.search("".join(turn_text(turn))):  # it begins in one part and ends in another
            for part in turn["content"]:
                part |= {"text": MARK + part["text"]} if part["type"] == "text" else {}  # noqa: PLW2901
    return made


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
