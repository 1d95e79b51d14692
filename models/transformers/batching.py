"""Gathers the calls of one `batch`, so that the model sees them as one padded batch."""

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from .rows import Row


class Gathering:
    """A fixed number of calls that wait for each other.

    Every call either joins with its row or leaves (it failed before, or a cache answered it). The
    last one to do so sets the model to work on all rows that joined.
    """

    def __init__(self, size: int) -> None:
        """Expect `size` calls."""
        self._lock = threading.Lock()
        self._missing = size
        self._rows: list[Row] = []
        self._submit: Callable[[Sequence[Row]], None] | None = None

    def join(self, row: Row, submit: Callable[[Sequence[Row]], None]) -> None:
        """Bring a row; `submit` starts a generation with all of them."""
        with self._lock:
            self._rows.append(row)
            self._submit = submit
        self.leave()

    def leave(self) -> None:
        """Expect one call less."""
        with self._lock:
            self._missing -= 1
            if self._missing or self._submit is None:
                return
        self._submit(self._rows)


class Seat:
    """One call's place in a gathering; it is used or given up exactly once, whatever happens.

    A cancelled call leaves from the event loop while a thread may still be about to join.
    """

    def __init__(self, gathering: Gathering) -> None:
        """Take a place."""
        self._gathering = gathering
        self._lock = threading.Lock()
        self._used = False

    def join(self, row: Row, submit: Callable[[Sequence[Row]], None]) -> None:
        """Bring the call's row; if the place is gone, the row goes alone."""
        if self._use():
            self._gathering.join(row, submit)
        else:
            submit([row])

    def leave(self) -> None:
        """The call is over; without effect if it has joined."""
        if self._use():
            self._gathering.leave()

    def _use(self) -> bool:
        with self._lock:
            first, self._used = not self._used, True
        return first


current_seat: ContextVar[Seat | None] = ContextVar("current_seat", default=None)
"""The place of the call that runs in this context, None outside `batch`."""
