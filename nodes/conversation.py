"""The channel of `messages`: as LangGraph's own, but its checkpoints do not repeat the pictures.

A checkpointer that stores whole checkpoints writes a message once a step: a picture inside it would
be stored some ten times in a run. Here it goes to the cache folder once, under its content hash,
and the checkpoint names it; so does the run's input (see `run_input`). Reading the checkpoint puts
it back, so nobody sees a difference, as long as the cache folder is kept with the checkpoints.
Where the file is gone, the name stays: the rest of the conversation can still be read, and
`lost_picture` tells.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Self

from langchain_core.messages import BaseMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.graph.message import add_messages
from typing_extensions import override

from ..models.images import is_image_block
from ..models.images.store import read_stored, store_image
from .off_loop import off_loop

_MARK = "langgraph-mai-stored:"
_WORTH_STORING = 4096  # characters


class Conversation(BinaryOperatorAggregate[Any]):
    """Messages, merged by id; base64 data inside them is stored once, not in every checkpoint."""

    def __init__(self, typ: Any, operator: Callable[[Any, Any], Any] = add_messages) -> None:
        super().__init__(typ, operator)
        self._kept: tuple[Any, Any] = (None, None)

    @override
    def update(self, values: Sequence[Any]) -> bool:
        return super().update([_each(value, _take_back) for value in values])

    @override
    def checkpoint(self) -> Any:
        value = super().checkpoint()
        if value is not self._kept[0]:  # Most steps write no message.
            self._kept = (value, _each(value, _put_away))
        return self._kept[1]

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = super().from_checkpoint(checkpoint)
        # A server may hand messages over as dicts.
        channel.value = _each(channel.value, _take_back)
        return channel


def put_pictures_away(messages: Any) -> Any:
    """Messages in any form that `add_messages` takes, with names in the place of base64 data."""
    return _each(messages, _put_away)


def lost_picture(message: BaseMessage) -> bool:
    """Whether a picture of this message was put away, and its file is gone."""
    lost: list[str] = []

    def look(text: str) -> str:
        if text.startswith(_MARK):
            lost.append(text)
        return text

    blocks = message.content if isinstance(message.content, list) else []
    _changed([block for block in blocks if is_image_block(block)], look)
    return bool(lost)


def _each(messages: Any, change: Callable[[str], str]) -> Any:
    if isinstance(messages, list):
        return [_each(message, change) for message in messages]
    if isinstance(messages, BaseMessage):
        return _with(messages, change)
    if isinstance(messages, dict) and isinstance(messages.get("content"), list):
        return {**messages, "content": _changed(messages["content"], change)}
    return messages


def _with(message: BaseMessage, change: Callable[[str], str]) -> BaseMessage:
    """The message with the texts inside its blocks changed; the same object if none is."""
    if isinstance(message.content, str):
        return message
    content = _changed(message.content, change)
    if content == message.content:
        return message
    return message.model_copy(update={"content": content})


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _changed(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, change) for inner in value]
    return value


def _put_away(text: str) -> str:
    """Base64 data, alone or in a data URI, as the name of the file that now holds it."""
    if len(text) < _WORTH_STORING:
        return text
    head, comma, data = text.rpartition(",") if text.startswith("data:") else ("", "", text)
    try:
        content = base64.b64decode(data, validate=True)
        if base64.b64encode(content).decode("ascii") != data:
            return text  # Another way to write base64; it could not be put back as it was.
        name = off_loop(store_image, content).name
    except (binascii.Error, OSError, ValueError):
        return text
    return f"{_MARK}{name} {head}{comma}"


def _take_back(text: str) -> str:
    if not text.startswith(_MARK):
        return text
    name, _, head = text.removeprefix(_MARK).partition(" ")
    content = off_loop(read_stored, name)
    return text if content is None else head + base64.b64encode(content).decode("ascii")
