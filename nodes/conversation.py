"""The channel of `messages`: as LangGraph's own, but its checkpoints do not repeat the pictures.

A checkpointer that stores whole checkpoints writes a message once a step: a picture inside it would
be stored some ten times in a run. Here it goes to the cache folder once, under its content hash,
and the checkpoint names it; so does the run's input (see `run_input`). Reading the checkpoint puts
it back, so nobody sees a difference, as long as the cache folder is kept with the checkpoints.
Where the file is gone, the name stays: the rest of the conversation can still be read, and
`lost_picture` tells.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

from langchain_core.messages import BaseMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.graph.message import add_messages
from typing_extensions import override

from .stored_pictures import change_pictures, is_name, put_away, take_back


class Conversation(BinaryOperatorAggregate[Any]):
    """Messages, merged by id; pictures inside them are stored once, not in every checkpoint."""

    def __init__(self, typ: Any, operator: Callable[[Any, Any], Any] = add_messages) -> None:
        super().__init__(typ, operator)
        self._kept: tuple[Any, Any] = (None, None)

    @override
    def update(self, values: Sequence[Any]) -> bool:
        return super().update([_each(value, take_back) for value in values])

    @override
    def checkpoint(self) -> Any:
        value = super().checkpoint()
        if value is not self._kept[0]:  # Most steps write no message.
            self._kept = (value, _each(value, put_away))
        return self._kept[1]

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = super().from_checkpoint(checkpoint)
        # A server may hand messages over as dicts.
        channel.value = _each(channel.value, take_back)
        return channel


def put_pictures_away(messages: Any) -> Any:
    """Messages in any form that `add_messages` takes, with names in the place of pictures."""
    return _each(messages, put_away)


def lost_picture(message: BaseMessage) -> bool:
    """Whether a picture of this message was put away, and its file is gone."""
    lost: list[Any] = []

    def look(value: Any) -> Any:
        if is_name(value):
            lost.append(value)
        return value

    change_pictures(message.content, look)
    return bool(lost)


def _each(messages: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(messages, list):
        return [_with(message, change) for message in messages]
    return _with(messages, change)


def _with(message: Any, change: Callable[[Any], Any]) -> Any:
    """The message with the pictures inside its blocks changed; the same object if none is."""
    if isinstance(message, BaseMessage):
        content = change_pictures(message.content, change)
        if content == message.content:
            return message
        return message.model_copy(update={"content": content})
    if isinstance(message, dict):
        changed = dict(message)
        if "content" in message:
            changed["content"] = change_pictures(message["content"], change)
        if "kwargs" in message:  # as LangChain writes messages to JSON
            changed["kwargs"] = _with(message["kwargs"], change)
        return changed
    if isinstance(message, list | tuple) and len(message) == 2:  # a role and its content
        return (message[0], change_pictures(message[1], change))
    return message
