"""Load an image once for everybody: from a reference, or from a message's content block."""

import base64
import hashlib
import io
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from cachetools import LRUCache, cached
from PIL import Image
from typing_extensions import TypedDict, Unpack

from ...configs.files import write_whole
from .decoding import MIN_SIDE, ImageError, decode_image
from .sources import (
    decode_base64,
    decode_data_uri,
    describe,
    local_path,
    read_reference,
    reference_scheme,
)

CACHE_BYTES = 256 << 20
"""Memory that decoded images may take in a process; as much again for texts that hold images."""

_MOST_LOSSLESS = 16_000_000
"""Images of more pixels are encoded as JPEG: as PNG, one takes seconds."""

_IMAGE_TYPES = ("image", "image_url", "input_image")


@dataclass(frozen=True, eq=False)
class DecodedImage:
    """An image as a person sees it, and as chat models take it.

    Attributes:
        image: RGB, upright, sides and ratio within what vision models take (see `decoding`). It is
            shared by all that load equal bytes: never change it.
        digest: Its name: the hex SHA-256 of the bytes as they were read; of the pixels, where it
            came as a PIL image.
        format: Pillow's name of the encoding it came in; None for PIL images.
        data: The bytes as read, where they show exactly `image` to any reader (plain RGB PNG or
            JPEG); None where it has to be encoded again.
    """

    image: Image.Image
    digest: str
    format: str | None = None
    data: bytes | None = field(default=None, repr=False)

    @cached_property
    def base64(self) -> str:
        """The image file as base64: the bytes as read, or encoded again."""
        data = self.data
        if data is None:
            stream = io.BytesIO()
            if self.mime_type == "image/jpeg":
                self.image.save(stream, "JPEG", quality=95, subsampling=0)  # full colour resolution
            else:
                self.image.save(stream, "PNG", compress_level=1)
            data = stream.getvalue()
        text = base64.b64encode(data).decode("ascii")
        _remember(text, self)
        return text

    @property
    def mime_type(self) -> str:
        """Of `base64`: photos that came as JPEG stay JPEG, everything else of usual size is PNG.

        A lossless file of a photo is ten times as large.
        """
        large = self.data is None and self.image.width * self.image.height > _MOST_LOSSLESS
        return "image/jpeg" if large or self.format in {"JPEG", "MPO"} else "image/png"

    @property
    def block(self) -> dict[str, Any]:
        """LangChain's standard image block, which every chat model package accepts.

        A model of this package that gets it neither decodes nor hashes the image again.
        """
        return {"type": "image", "base64": self.base64, "mime_type": self.mime_type}

    def shrink(self, max_pixels: int | None) -> "DecodedImage":
        """Return it with at most so many pixels, in the same shape; itself if it has no more.

        No side gets shorter than `MIN_SIDE`: an image that is too long for both stays larger.
        """
        pixels = self.image.width * self.image.height
        if max_pixels is None or pixels <= max_pixels:
            return self
        scale = max((max_pixels / pixels) ** 0.5, MIN_SIDE / min(self.image.size))
        size = [max(MIN_SIDE, int(side * scale)) for side in self.image.size]
        digest = f"{self.digest}-{max_pixels}"
        resize = partial(self.image.resize, size, Image.Resampling.BICUBIC)
        return _once(digest, lambda: DecodedImage(resize(), digest, self.format))


def _memory(decoded: DecodedImage) -> int:
    encoded = 7 * len(decoded.data or b"") // 3  # the bytes, and their base64
    return 4 * decoded.image.width * decoded.image.height + encoded


_images: LRUCache[str, DecodedImage] = LRUCache(CACHE_BYTES, getsizeof=_memory)
# Digests, with the lengths, of base64 texts and data URIs.
_texts: LRUCache[str, tuple[str, int]] = LRUCache(CACHE_BYTES, getsizeof=itemgetter(1))
_lock = threading.Condition()


@cached(_images, key=lambda digest, _: digest, condition=_lock)
def _once(_: str, make: Callable[[], DecodedImage]) -> DecodedImage:
    """Make an image, unless it is cached or another thread is making it."""
    return make()


class ImageAccess(TypedDict, total=False):
    """From where images may be read, beside those that are data.

    Attributes:
        allow_fetch: Whether http(s) URLs of the public internet may be downloaded (20 s and 32 MiB
            at most).
        image_root: Only files below this folder may be read; None for any.
    """

    allow_fetch: bool
    image_root: str | Path | None


def load_image(reference: str, **access: Unpack[ImageAccess]) -> DecodedImage:
    """Load an image; equal bytes are decoded once.

    Args:
        reference: A path, a `file:` URL, a data URI, or an http(s) URL.
        access: From where it may be read: see `ImageAccess`.

    Raises:
        ImageError: There is no such image, or it cannot be used.
    """
    if reference_scheme(reference) == "data":
        return _from_text(reference, decode_data_uri, "The data URI")
    data = read_reference(reference, **access)
    return _from_bytes(data, describe(reference))


def cached_image(digest: str) -> DecodedImage | None:
    """Return the image of this digest if it is still in memory."""
    with _lock:
        return _images.get(digest)


def clear_image_cache() -> None:
    """Forget all decoded images."""
    with _lock:
        _images.clear()
        _texts.clear()


def image_reference(image: str | Path | bytes | Image.Image, folder: str | Path) -> str:
    """Turn whatever names or holds an image into a string that a state can carry.

    Args:
        image: Paths and file URLs become absolute paths (they are not opened), http(s) URLs stay
            as they are. Bytes, data URIs and PIL images are checked and written to a file.
        folder: Where to; the file is named by the hash of its content, so equal images share one.

    Raises:
        ImageError: The bytes are no usable image, or the string is no known kind of reference.
        ConfigError: The folder cannot be written.
    """
    if isinstance(image, str | os.PathLike):
        text = os.fspath(image)
        scheme = reference_scheme(text)
        if scheme in {"http", "https"}:
            return text
        if scheme != "data":
            return str(local_path(text))
        data, name = decode_data_uri(text), "The data URI"
    elif isinstance(image, Image.Image):
        data, name = base64.b64decode(_from_pil(image).base64), "The image"
    elif isinstance(image, bytes | bytearray | memoryview):
        data, name = bytes(image), "The image"
    else:
        raise ImageError(
            f"An image is a path, a URL, bytes or a PIL image, not {type(image).__name__}."
        )
    decoded = _from_bytes(data, name)
    ending = "jpeg" if decoded.format == "MPO" else str(decoded.format).lower()
    path = Path(folder).expanduser().absolute() / f"{decoded.digest}.{ending}"
    if not (path.is_file() and path.stat().st_size == len(data)):
        write_whole(path, data)
    return str(path)


def block_image(block: Mapping[str, Any], **access: Unpack[ImageAccess]) -> DecodedImage:
    """Load the image of a content block, in any form seen in the wild.

    LangChain v1 and v0 blocks (url, base64), OpenAI `image_url` (object or plain string) and
    `input_image`, Anthropic `source`, Hugging Face `{"type": "image", "image": ...}` (also `url`,
    `path`, and PIL images), Google `media`, and `file` blocks with an image type.

    Args:
        block: The block.
        access: From where it may be read: see `ImageAccess`.

    Raises:
        ImageError: Not an image block, or its image cannot be had or used.
    """
    content, encoded = _block_content(block)
    if isinstance(content, Image.Image):
        return _from_pil(content)
    if isinstance(content, bytes):
        return _from_bytes(content, "The image")
    if encoded:
        return _from_text(content, lambda text: decode_base64(text, "The image block"))
    return load_image(content, **access)


def is_image_block(block: object) -> bool:
    """Whether a message's content block is an image, in any form `block_image` reads."""
    if not isinstance(block, Mapping):
        return False
    kind = block.get("type")
    if kind is None:
        return "image" in block or "image_url" in block
    if kind == "non_standard":
        return is_image_block(block.get("value"))
    if kind in ("file", "media"):
        return str(block.get("mime_type", "")).lower().startswith("image/")
    return kind in _IMAGE_TYPES


def _block_content(block: Mapping[str, Any]) -> tuple[str | bytes | Image.Image, bool]:
    """Return what a block holds, and whether that is base64 rather than a reference."""
    if not is_image_block(block):
        kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
        raise ImageError(f"A content block of type {str(kind)[:100]!r} is not an image.")
    if block.get("type") == "non_standard":
        return _block_content(block["value"])
    source = block.get("source")
    if isinstance(source, Mapping):  # Anthropic
        return _block_content({**source, "type": "image"})
    for key in ("base64", "data", "image_url", "url", "image", "path"):
        value = block.get(key)
        if isinstance(value, Mapping):  # OpenAI: {"image_url": {"url": ..., "detail": ...}}
            value = value.get("url")
        if isinstance(value, os.PathLike):
            value = str(value)
        if isinstance(value, bytes | Image.Image) or (isinstance(value, str) and value):
            return value, key in {"base64", "data"} and not str(value).startswith("data:")
    if block.get("file_id"):
        raise ImageError("An image given by a file_id is not here; give a path, a URL or base64.")
    keys = ", ".join(map(str, block))
    raise ImageError(
        f"An image block holds no image (its keys: {keys[:200]}); give a path, a URL or base64."
    )


def _from_bytes(data: bytes, name: str) -> DecodedImage:
    digest = hashlib.sha256(data).hexdigest()

    def decode() -> DecodedImage:
        image, encoding, untouched = decode_image(data, name)
        return DecodedImage(image, digest, encoding, data if untouched else None)

    return _once(digest, decode)


def _from_pil(image: Image.Image) -> DecodedImage:
    seen, encoding, _ = decode_image(image, "The image")
    digest = hashlib.sha256(f"{seen.width} {seen.height} ".encode() + seen.tobytes()).hexdigest()
    return _once(digest, lambda: DecodedImage(seen.copy(), digest, encoding))


def _from_text(text: str, decode: Callable[[str], bytes], name: str = "The image") -> DecodedImage:
    """Load what a base64 text or data URI holds; one that was seen before is not decoded again."""
    with _lock:
        digest, _ = _texts.get(text, ("", 0))
    found = cached_image(digest)
    if found is None:
        found = _from_bytes(decode(text), name)
        _remember(text, found)
    return found


def _remember(text: str, decoded: DecodedImage) -> None:
    if len(text) <= CACHE_BYTES:
        with _lock:
            _texts[text] = decoded.digest, len(text)
