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
    """One call's place in a gathering; it is given up exactly once, whatever happens."""

    def __init__(self, gathering: Gathering) -> None:
        """Take a place."""
        self._gathering = gathering
        self._free = False

    def join(self, row: Row, submit: Callable[[Sequence[Row]], None]) -> None:
        """Bring the call's row. A second row of the same call goes alone."""
        if self._free:
            submit([row])
            return
        self._free = True
        self._gathering.join(row, submit)

    def leave(self) -> None:
        """The call is over; without effect if it has joined."""
        if not self._free:
            self._free = True
            self._gathering.leave()


current_seat: ContextVar[Seat | None] = ContextVar("current_seat", default=None)
"""The place of the call that runs in this context, None outside `batch`."""
