"""Asks a model call to end early and to hand over what it has written so far."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from langchain_core.messages import AIMessage


class CallStoppedError(Exception):
    """A call that ended early because a `StopSignal` asked it to.

    It is raised, not returned, so that no cache takes the output for a whole one. Retries and
    fallbacks around the model take it for a failure, and their calls end at once.

    Attributes:
        message: What was written until then, with usage and the finish reason "cancelled".
    """

    def __init__(self, message: AIMessage) -> None:
        """Keep the message."""
        super().__init__("The call was stopped by its StopSignal.")
        self.message = message


class StopSignal:
    """Asks the calls that were made in its context to end.

    Cancelling a call loses what it wrote and what it cost. A model that listens to the signal ends
    within a token and raises `CallStoppedError` with both; `ChatTransformers` does.
    """

    def __init__(self) -> None:
        """Nobody is asked yet."""
        self._lock = threading.Lock()
        self._stopped = False
        self._listeners: list[Callable[[], object]] = []

    def stop(self) -> None:
        """Ask all calls to end, also those that begin later."""
        with self._lock:
            self._stopped = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Have a function called when the signal comes; at once, if it has come."""
        with self._lock:
            if not self._stopped:
                self._listeners.append(listener)
                return
        listener()

    @contextmanager
    def covering(self) -> Iterator[None]:
        """While this is held, calls made in this context listen to the signal."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


def current_stop_signal() -> StopSignal | None:
    """The signal that covers the call made in this context, if there is one."""
    return _current.get()


_current: ContextVar[StopSignal | None] = ContextVar("current_stop_signal", default=None)
