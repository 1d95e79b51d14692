"""What some chat models can do beyond chatting; nodes ask for it here, not for classes."""

from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class TakesTimeout(Protocol):
    """A model whose calls take `timeout=` in seconds, and really stop computing when it is over."""

    takes_timeout: ClassVar[bool]
