"""A conversation: what is asked in it, and which of its images that is about.

People send an image and its question in one message or in two, in either order, and ask on without
sending the image again. Messages that belong together make a turn: an image before or behind its
question, or what several tools returned.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from ..models.images import is_image_block
from .state import MAIInputError


class ShownImage(NamedTuple):
    """An image inside a message.

    Attributes:
        reference: Where it stands: `message:ID/BLOCK`.
        block: Its content block.
    """

    reference: str
    block: Any


def turns(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """Part a conversation into turns.

    A second text of the same person begins a turn of its own: the former question was cancelled, or
    nothing could answer it.
    """
    found: list[list[BaseMessage]] = []
    for message in messages:
        same = bool(found) and found[-1][-1].type == message.type
        human = message.type == "human" and not (
            message.text.strip() and same and any(one.text.strip() for one in found[-1])
        )
        if same and (human or message.type == "tool"):
            found[-1].append(message)
        else:
            found.append([message])
    return found


def question_turn(messages: Sequence[BaseMessage]) -> tuple[str, list[ShownImage]] | None:
    """Return text and images of a person's last turn, which is the question; None without one.

    Two texts that touch are parted by a line break.

    Raises:
        MAIInputError: It holds something that no agent would see: a video, a document.
    """
    turn = next((one for one in reversed(turns(messages)) if one[0].type == "human"), None)
    if turn is None:
        return None
    text = ""
    for message in turn:
        blocks = [message.content] if isinstance(message.content, str) else message.content
        for part in map(_block_text, blocks):
            touching = text and part and not (text[-1].isspace() or part[0].isspace())
            text += "\n" + part if touching else part
    return text, _images(turn)


def _images(turn: Sequence[BaseMessage]) -> list[ShownImage]:
    return [
        ShownImage(f"message:{message.id}/{index}", block)
        for message in turn
        if message.type != "system" and not isinstance(message.content, str)
        for index, block in enumerate(message.content)
        if is_image_block(block)
    ]


def latest_images(messages: Sequence[BaseMessage]) -> list[ShownImage]:
    """Return the images of the last turn that has some."""
    return next(filter(None, map(_images, reversed(turns(messages)))), [])


def later_images(messages: Sequence[BaseMessage], used: Sequence[str]) -> list[ShownImage]:
    """Return the latest images behind the last answer about these ones; of none if there is none.

    Args:
        messages: A conversation.
        used: References of images, as an answer's `response_metadata["images"]` has them.
    """
    for number in reversed(range(len(messages))):
        if messages[number].response_metadata.get("images") == [*used]:
            return latest_images(messages[number + 1 :])
    return []


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
        named = " ".join(
            str(block[key]) for key in ("type", "mime_type", "mimeType") if key in block
        )
        named = (named or ", ".join(map(str, block)) or "empty")[:100]
    else:
        named = type(block).__name__
    raise MAIInputError(
        f"The message holds a block that cannot be asked about ({named}); give text and images."
    )
