"""Pictures in and out: references that a state can hold, content blocks that chat models take.

A *reference* is a string: an absolute path or an http(s) URL. Bytes, PIL images and data URIs get
one by being stored under their content hash. Whatever comes in, `load_image` and `block_image`
return the picture a person would see: RGB, turned as its EXIF data says, transparent parts white,
the first frame of an animation, CMYK and 16-bit greys converted, the type taken from the bytes.
Sides below 32 px are scaled up and ratios above 200 are padded with white, because the processors
of vision models refuse them. A picture that cannot be used raises `ImageError` with one sentence.
"""

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from PIL import Image

from ..shared_cache import SharedCache
from .decoding import (
    UNKNOWN_ENDING,
    ImageError,
    Picture,
    decode_image,
    encode_image,
    image_ending,
    normalize_image,
    shrink_image,
)
from .sources import (
    decode_base64,
    decode_data_uri,
    local_path,
    read_reference,
    reference_scheme,
    shown,
)
from .store import store_image

__all__ = [
    "ImageError",
    "block_image",
    "decoded_pictures",
    "encoded_pictures",
    "image_block",
    "image_reference",
    "is_image_block",
    "load_image",
    "message_images",
    "shrink_image",
    "standard_block",
    "unchecked_reference",
]

_KEPT_BYTES = 256 * 1024 * 1024
"""Memory that decoded pictures may take; a run decodes each of its pictures once."""

decoded_pictures: SharedCache[Picture] = SharedCache(
    _KEPT_BYTES, lambda picture: 3 * picture.image.width * picture.image.height
)
encoded_pictures: SharedCache[tuple[bytes, str]] = SharedCache(
    _KEPT_BYTES // 4, lambda encoded: len(encoded[0])
)

_IMAGE_TYPES = {"image", "image_url", "input_image"}


def load_image(reference: str, *, allow_fetch: bool = False) -> Image.Image:
    """Load a picture as RGB.

    Args:
        reference: A path, a `file:` URL, a data URI, or an http(s) URL.
        allow_fetch: Whether http(s) URLs may be downloaded (20 s and 32 MiB at most).

    Raises:
        ImageError: The picture cannot be had or cannot be used.
    """
    data = read_reference(reference, allow_fetch=allow_fetch)
    return _decode(data, _name(reference)).image.copy()


def image_reference(image: str | Path | bytes | Image.Image) -> str:
    """Turn whatever names or holds a picture into a string that a state can carry.

    Paths and file URLs become absolute paths (they are not opened), http(s) URLs stay as they are.
    Bytes, data URIs and PIL images are checked and stored once, see `store`.

    Raises:
        ImageError: The bytes are no usable picture, or the string is no known kind of reference.
    """
    if isinstance(image, Image.Image):
        return _store(normalize_image(image, "The image"))
    if isinstance(image, bytes | bytearray | memoryview):
        return _store_bytes(bytes(image), "The image")
    if not isinstance(image, str | os.PathLike):
        raise ImageError(
            f"A picture is a path, a URL, bytes or a PIL image, not {type(image).__name__}."
        )
    text = os.fspath(image)
    scheme = reference_scheme(text)
    if scheme == "data":
        return _store_bytes(decode_data_uri(text), "The data URI")
    if scheme in {"http", "https"}:
        return text
    return str(local_path(text))


def unchecked_reference(image: str | Path | bytes | Image.Image) -> str:
    """`image_reference`, but of encoded data only the header is looked at, for want of time.

    Whoever loads the picture finds out whether it is whole.

    Raises:
        ImageError: The data does not begin like a picture, or see `image_reference`.
    """
    if isinstance(image, bytes | bytearray | memoryview):
        data = bytes(image)
    elif isinstance(image, str) and reference_scheme(image) == "data":
        data = decode_data_uri(image)
    else:
        return image_reference(image)
    if image_ending(data) == UNKNOWN_ENDING:
        raise ImageError("The data does not begin like a picture.")
    return str(store_image(data))


def image_block(reference: str, *, allow_fetch: bool = False) -> dict[str, Any]:
    """A picture as LangChain's standard image block, which every chat model package accepts.

    The bytes go in as they are if every reader sees the right picture in them (plain RGB PNG or
    JPEG); otherwise the loaded picture is encoded anew.

    Returns:
        `{"type": "image", "base64": ..., "mime_type": ...}`

    Raises:
        ImageError: The picture cannot be had or cannot be used.
    """
    data = read_reference(reference, allow_fetch=allow_fetch)
    return _block(_decode(data, _name(reference)), data)


def standard_block(
    block: Mapping[str, Any], *, max_pixels: int | None = None, allow_fetch: bool = False
) -> dict[str, Any]:
    """A content block in any form that `block_image` reads, as what `image_block` returns.

    Args:
        block: A picture's content block.
        max_pixels: A picture with more pixels is shrunk to this.
        allow_fetch: Whether http(s) URLs may be downloaded.

    Raises:
        ImageError: Not an image block, or its picture cannot be had or used.
    """
    content = _block_content(block)
    if isinstance(content, Image.Image):
        picture, data = normalize_image(content, "The image"), b""
    elif isinstance(content, bytes):
        picture, data = _decode(content, "The image"), content
    else:
        data = read_reference(content, allow_fetch=allow_fetch)
        picture = _decode(data, _name(content))
    image = shrink_image(picture.image, max_pixels)
    if image is not picture.image:
        picture, data = replace(picture, image=image, untouched=False), b""
    return _block(picture, data)


def block_image(block: Mapping[str, Any], *, allow_fetch: bool = False) -> Image.Image:
    """Load the picture of a content block, in any form seen in the wild.

    LangChain v1 and v0 blocks (url, base64), OpenAI `image_url` (object or plain string) and
    `input_image`, Anthropic `source`, Hugging Face `{"type": "image", "image": ...}` (also `url`,
    `path`, and PIL images), Google `media`, and `file` blocks with an image type.

    Raises:
        ImageError: Not an image block, or its picture cannot be had or used.
    """
    content = _block_content(block)
    if isinstance(content, Image.Image):
        return normalize_image(content, "The image").image
    if isinstance(content, bytes):
        return _decode(content, "The image").image.copy()
    return load_image(content, allow_fetch=allow_fetch)


def is_image_block(block: object) -> bool:
    """Whether a message's content block is a picture, in any form `block_image` reads."""
    if not isinstance(block, Mapping):
        return False
    kind = block.get("type")
    if kind == "non_standard":
        return is_image_block(block.get("value"))
    if kind in {"file", "media"}:
        return str(block.get("mime_type", "")).lower().startswith("image/")
    return kind in _IMAGE_TYPES or (kind is None and ("image" in block or "image_url" in block))


def message_images(message: BaseMessage) -> list[str]:
    """References of a message's pictures, in order; data inside the message is stored first.

    Raises:
        ImageError: An image block without a usable picture.
    """
    if isinstance(message.content, str):
        return []
    blocks = [block for block in message.content if is_image_block(block)]
    return [image_reference(_block_content(block)) for block in blocks]  # type: ignore[arg-type]


def _block(picture: Picture, data: bytes) -> dict[str, Any]:
    """The standard block of a picture; `data` is how it came, empty if it was never encoded."""
    if data and picture.untouched and picture.format in {"PNG", "JPEG"}:
        mime_type = f"image/{picture.format.lower()}"
    else:
        data, mime_type = _encode(picture, data)
    return {
        "type": "image",
        "base64": base64.b64encode(data).decode("ascii"),
        "mime_type": mime_type,
    }


def _encode(picture: Picture, data: bytes) -> tuple[bytes, str]:
    """`encode_image`, once for a picture that came as these bytes."""
    if not data:
        return encode_image(picture)
    return encoded_pictures.get(_digest(data), lambda: encode_image(picture))


def _block_content(block: Mapping[str, Any]) -> str | bytes | Image.Image:
    """What a block holds: a reference, encoded bytes, or a PIL image."""
    if not is_image_block(block):
        raise ImageError(f"A content block of type {block.get('type')!r} is not a picture.")
    if block.get("type") == "non_standard":
        return _block_content(block["value"])
    source = block.get("source")
    if isinstance(source, Mapping):  # Anthropic
        return _block_content({**source, "type": "image"})
    for key in ("base64", "data"):
        if value := block.get(key):
            return _inline_data(value)
    for key in ("image_url", "url", "image", "path"):
        value = block.get(key)
        if isinstance(value, Mapping):  # OpenAI: {"image_url": {"url": ..., "detail": ...}}
            value = value.get("url")
        if isinstance(value, bytes | Image.Image) or (isinstance(value, str) and value):
            return value
        if isinstance(value, os.PathLike):
            return str(value)
    if block.get("file_id"):
        raise ImageError("A picture given by a file_id is not here; give a path, a URL or base64.")
    raise ImageError(
        f"An image block holds no picture (its keys: {', '.join(map(str, block))}); give a path, a "
        "URL or base64."
    )


def _inline_data(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    if value.startswith("data:"):
        return decode_data_uri(value)
    return decode_base64(value, "The image block")


def _decode(data: bytes, name: str) -> Picture:
    """`decode_image`, once for equal bytes; the picture belongs to everyone, so copy it."""
    return decoded_pictures.get(_digest(data), lambda: decode_image(data, name))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _store_bytes(data: bytes, name: str) -> str:
    _decode(data, name)
    return str(store_image(data))


def _store(picture: Picture) -> str:
    return str(store_image(encode_image(picture)[0]))


def _name(reference: str) -> str:
    return "The data URI" if reference_scheme(reference) == "data" else shown(reference)
