"""Types for pictures that come into a chat model as bare base64.

LangChain refuses an image block with base64 and no `mime_type` before the chat model sees it.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from ..models.images import is_image_block

_UNKNOWN = "image/bin"
_ENOUGH = 16  # characters of base64, 12 bytes


def with_image_types(message: BaseMessage) -> BaseMessage:
    """The message with a `mime_type` in each of its base64 image blocks, read from the bytes.

    A picture of an unknown type is called `image/bin`: whether it can be used is seen where it is
    decoded. The same object if no type is missing.
    """
    if isinstance(message.content, str):
        return message
    content = [_typed(block) for block in message.content]
    if content == message.content:
        return message
    return message.model_copy(update={"content": content})


def _typed(block: Any) -> Any:
    if not isinstance(block, Mapping) or block.get("type") != "image" or block.get("mime_type"):
        return block
    data = block.get("base64") or block.get("data")
    if not isinstance(data, str) or not is_image_block(block):
        return block
    return {**block, "mime_type": _mime_type(data)}


def _mime_type(data: str) -> str:
    try:
        start = base64.b64decode(data[:_ENOUGH])
    except (binascii.Error, ValueError):
        return _UNKNOWN
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    if start.startswith((b"II*\0", b"MM\0*")):
        return "image/tiff"
    return "image/bmp" if start.startswith(b"BM") else _UNKNOWN
