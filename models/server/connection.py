"""A server's client and the event loop that it sends from."""

import os
import threading
import weakref
from typing import Any

import openai

from .background_loop import BackgroundLoop
from .client import ServerSettings, make_client

_loops: "weakref.WeakKeyDictionary[Any, BackgroundLoop]" = weakref.WeakKeyDictionary()
_loops_lock = threading.Lock()


class Connection:
    """A client and its loop, in the process that made them.

    Attributes:
        settings: What it was made of.
        client: The client.
        loop: Where everything is sent from.
    """

    def __init__(self, settings: ServerSettings, before: "Connection | None" = None) -> None:
        """Prepare a connection; nothing is sent.

        Args:
            settings: What it is made of.
            before: The connection that it takes the place of. One that a fork left here is kept,
                as its end would disturb the process that still uses it.

        Raises:
            ValueError: A forked process would share the sockets of the caller's HTTP client.
        """
        forked = before is not None and not before.is_of_this_process
        if forked and settings.http_client is not None:
            raise ValueError(
                "A forked process cannot use the http_async_client of its parent; make the "
                "ChatServer anew in it."
            )
        self.settings = settings
        self.client: openai.AsyncOpenAI = make_client(settings)
        self.loop = (
            BackgroundLoop(self.client.close)
            if settings.http_client is None
            else _loop_of(settings.http_client)
        )
        self._pid = os.getpid()
        self._inherited: Connection | None = before if forked else before and before._inherited

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was made here, and not before a fork."""
        return self._pid == os.getpid()


def _loop_of(http_client: Any) -> BackgroundLoop:
    """The one loop for a caller's HTTP client: models that share it share its connections."""
    with _loops_lock:
        if http_client not in _loops:
            _loops[http_client] = BackgroundLoop(_leave_open)
        return _loops[http_client]


async def _leave_open() -> None:
    """The caller's HTTP client is the caller's to close."""
