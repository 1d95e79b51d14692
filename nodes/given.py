"""The channel of what a run is given, for graphs that have the cascade as a node."""

from collections.abc import Sequence
from typing import Any, Self

from langgraph.channels import LastValue
from typing_extensions import override


class Given(LastValue[Any]):
    """A value that lasts as long as the run it was given to.

    LangGraph's `EphemeralValue` is gone after one step: a node before the cascade would lose the
    question. Its `LastValue` stays on a thread: the next run would be asked the same again. A run
    that raised has not ended, since it can be resumed; its values are still there.
    """

    __slots__ = ("_ended", "_former")

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self._ended = False
        self._former = False

    @override
    def copy(self) -> Self:
        channel = super().copy()
        channel._ended, channel._former = self._ended, self._former
        return channel

    @override
    def checkpoint(self) -> Any:
        value = super().checkpoint()
        return (value, self._ended) if self.is_available() else value

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = super().from_checkpoint(checkpoint)
        if channel.is_available():
            channel.value, channel._ended = checkpoint
            channel._former = channel._ended
        return channel

    @override
    def update(self, values: Sequence[Any]) -> bool:
        if not (values or self._ended):
            return False
        if values:
            super().update(values)
        elif self._former:  # A new run has begun, without a value of its own.
            self.value = type(self)(self.typ).value
        # Else the end was none: a deferred node, or one reached by `Send`, still ran.
        self._ended = self._former = False
        return True

    @override
    def finish(self) -> bool:
        if self._ended or not self.is_available():
            return False
        self._ended = True
        return True
