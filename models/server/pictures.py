"""Messages as a server takes them: every picture inside, as a data URI."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from ..images import is_image_block, standard_block


def inline_pictures(
    messages: Sequence[BaseMessage], *, max_pixels: int | None, allow_fetch: bool
) -> list[BaseMessage]:
    """Messages whose pictures, in whatever form they came, are `image_url` blocks of data URIs.

    The server fetches nothing and opens no file: it may be another machine.

    Args:
        messages: A conversation; it is not changed.
        max_pixels: Pictures with more pixels are shrunk to this.
        allow_fetch: Whether http(s) pictures may be downloaded, here.

    Raises:
        ImageError: A picture cannot be had or used.
    """

    def inlined(block: Any) -> Any:
        if not is_image_block(block):
            return block
        standard = standard_block(block, max_pixels=max_pixels, allow_fetch=allow_fetch)
        url = f"data:{standard['mime_type']};base64,{standard['base64']}"
        return {"type": "image_url", "image_url": {"url": url} | _detail(block)}

    return [
        message
        if isinstance(message.content, str)
        else message.model_copy(update={"content": [inlined(block) for block in message.content]})
        for message in messages
    ]


def count_pictures(messages: Sequence[BaseMessage]) -> int:
    """How many pictures a conversation holds."""
    contents = [message.content for message in messages if not isinstance(message.content, str)]
    return sum(is_image_block(block) for content in contents for block in content)


def _detail(block: Any) -> dict[str, Any]:
    """OpenAI's setting of how closely a picture is looked at, where the block has it."""
    inner = block.get("image_url")
    detail = inner.get("detail") if isinstance(inner, dict) else None
    return {"detail": detail} if detail else {}
