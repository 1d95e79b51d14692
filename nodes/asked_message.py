"""What a human message asks: its text, and references of its pictures."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from ..models.images import ImageError, is_image_block, message_images
from .conversation import lost_picture
from .errors import MAIInputError


def message_question(message: HumanMessage) -> str:
    """The texts of a message; two that touch are parted by a line break.

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


def message_pictures(message: HumanMessage) -> list[str]:
    """References of a message's pictures, in order.

    Raises:
        MAIInputError: A block that is no usable picture and no text.
    """
    message_question(message)  # refuses what is neither
    if lost_picture(message):
        raise MAIInputError(
            "A picture of this conversation is gone: checkpoints only name it, and the cache "
            "folder ($LANGGRAPH_MAI_CACHE or ~/.cache/langgraph-mai) no longer holds it; send the "
            "message again with its picture."
        )
    try:
        return message_images(message)
    except ImageError as error:
        raise MAIInputError(str(error)) from error


def _block_text(block: Any) -> str:
    """A block's text, empty for a picture."""
    if isinstance(block, str):
        return block
    if is_image_block(block):
        return ""
    if isinstance(block, Mapping):
        kind = block.get("type")
        text = block.get("text")
        # input_text: OpenAI's Responses API; no type: Bedrock.
        if kind in {"text", "input_text", None} and isinstance(text, str):
            return text
        if kind == "non_standard":
            return _block_text(block.get("value"))
        named = " ".join(str(part) for part in (kind, block.get("mime_type")) if part)
        named = named or ", ".join(map(str, block)) or "empty"
    else:
        named = type(block).__name__
    raise MAIInputError(
        f"The message holds a block that cannot be asked about ({named}); give text and pictures."
    )
