"""The calls of a store for models that may ask for the same one at the same moment."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .call_store import CallStore


class KeepsCalls(Protocol):
    """Where a `StoredModel` looks for calls and puts them; see `SharedCalls`."""

    async def call(self, key: str) -> tuple[dict[str, Any], float] | None:
        """A call's message as JSON and its seconds; None if the caller is to make it now."""
        ...

    async def add_call(
        self, key: str, role: str, style: str, message: Mapping[str, Any], seconds: float
    ) -> None:
        """Keep a call that was made."""
        ...

    async def add_failure(self, key: str, role: str, style: str, error: str) -> None:
        """Note a call that failed."""
        ...

    async def give_up(self, key: str) -> None:
        """Leave a call to others, with nothing to note about it."""
        ...


@dataclass(slots=True)
class _Making:
    maker: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class SharedCalls:
    """Each call is made by one of those who ask for it; the others wait for its answer.

    A call that failed is no answer: of those who waited, the next one makes it. It belongs to one
    event loop.
    """

    def __init__(self, store: CallStore) -> None:
        """Set up; no call is being made.

        Args:
            store: Where the calls are.
        """
        self._store = store
        self._making: dict[str, _Making] = {}

    async def call(self, key: str, maker: str = "") -> tuple[dict[str, Any], float] | None:
        """A stored call, also one that another maker has first to finish.

        Args:
            key: What the call's answer depends on, hashed.
            maker: Who asks.

        Returns:
            Message as JSON and seconds; None if the one who asks is to make the call. That one
            then tells `add_call`, `add_failure` or `give_up`.
        """
        while (making := self._making.get(key)) is not None:
            await making.ended.wait()
        found = self._store.call(key)
        if found is None:
            self._making[key] = _Making(maker)
        return found

    async def add_call(
        self, key: str, role: str, style: str, message: Mapping[str, Any], seconds: float
    ) -> None:
        """Store a call that was made."""
        try:
            self._store.add_call(key, role, style, message, seconds)
        finally:
            self._end(key)

    async def add_failure(self, key: str, role: str, style: str, error: str) -> None:
        """Note a call that failed."""
        try:
            self._store.add_failure(key, role, style, error)
        finally:
            self._end(key)

    async def give_up(self, key: str) -> None:
        """Leave a call to the next one who waits for it."""
        self._end(key)

    def forget(self, maker: str) -> None:
        """Leave all that a maker was at to others: it is gone, and will finish nothing."""
        for key in [key for key, making in self._making.items() if making.maker == maker]:
            self._end(key)

    def _end(self, key: str) -> None:
        making = self._making.pop(key, None)
        if making is not None:
            making.ended.set()
