"""A picture's data inside a message, and the name that stands for it in a checkpoint.

A name is sealed with a key that the cache folder holds: a text that a client wrote opens no file.
What comes back is what was given, to the byte, in whatever way it was written.
"""

import base64
import binascii
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from ..models.images import image_reference, is_image_block
from ..models.images.sources import decode_base64, reference_scheme
from ..models.images.store import read_stored, seal, store_image
from .off_loop import off_loop

_MARK = "langgraph-mai-stored:"
_WORTH_STORING = 4096  # characters or bytes

# How the file holds what was given.
_BASE64 = "base64"  # decoded
_TEXT = "text"  # as it was written; base64 can be written in many ways
_BYTES = "bytes"


def change_pictures(value: Any, change: Callable[[Any], Any]) -> Any:
    """Message content with every value inside its image blocks changed; other blocks are left.

    Args:
        value: The content, or a part of it.
        change: Takes and returns a value that is neither a list nor a dict.
    """
    if is_image_block(value):
        return _changed(value, change)
    if isinstance(value, dict):
        return {key: change_pictures(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([change_pictures(inner, change) for inner in value])
    return value


def put_away(value: Any) -> Any:
    """A picture's data as the sealed name of the file that now holds it; other values as they are.

    Data is base64 or a data URI (in any spelling), bytes, or a PIL image; an image comes back as
    a data URI. Data that cannot be stored and read again stays where it is.
    """
    try:
        if isinstance(value, Image.Image):
            path = Path(off_loop(image_reference, value))
            head = f"data:image/{path.suffix[1:]};base64,"
            return _stored(off_loop(path.read_bytes), _BASE64, head) or value
        if not isinstance(value, str | bytes) or len(value) < _WORTH_STORING:
            return value
        if isinstance(value, bytes):
            return _stored(value, _BYTES) or value
        return _stored_text(value) or value
    except (OSError, ValueError):
        return value


def take_back(value: Any) -> Any:
    """What `put_away` was given; other values, and names whose file is gone, as they are."""
    if not is_name(value):
        return value
    sealed, _, name = value.removeprefix(_MARK).partition(" ")
    if sealed not in off_loop(seal, name):
        return value
    form, file, head = name.split(" ", 2)
    data = off_loop(read_stored, file)
    if data is None or form == _BYTES:
        return value if data is None else data
    return data.decode() if form == _TEXT else head + base64.b64encode(data).decode("ascii")


def is_name(value: Any) -> bool:
    """Whether a value looks like what `put_away` leaves."""
    return isinstance(value, str) and value.startswith(_MARK)


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: _changed(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_changed(inner, change) for inner in value])
    return change(value)


def _stored_text(text: str) -> str | None:
    """The name for base64, alone or in a data URI.

    Raises:
        ValueError: It is another text.
    """
    is_uri = reference_scheme(text) == "data"
    head, comma, data = text.partition(",") if is_uri else ("", "", text)
    with contextlib.suppress(binascii.Error, UnicodeError):
        content = base64.b64decode(data, validate=True)
        if len(head) < _WORTH_STORING and base64.b64encode(content).decode("ascii") == data:
            return _stored(content, _BASE64, head + comma)
    # Line breaks, the alphabet of URLs, percent escapes, or no base64 at all.
    if not is_uri:
        decode_base64(text, "The image block")
    return _stored(text.encode(), _TEXT)


def _stored(data: bytes, form: str, head: str = "") -> str | None:
    """The sealed name of a file that holds these bytes; None if they cannot be read from it."""
    file = off_loop(store_image, data).name
    if off_loop(read_stored, file) != data:
        return None
    name = f"{form} {file} {head}"
    seals = off_loop(seal, name)
    return f"{_MARK}{seals[0]} {name}" if seals else None
