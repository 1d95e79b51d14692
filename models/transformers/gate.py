"""Keeps models from computing while another one is being loaded."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets models compute at the same time, but none while another one is being loaded.

    While transformers loads a checkpoint it changes torch's default dtype for the whole process. A
    model that computes in another thread at that moment would create some of its tensors in the
    wrong dtype, and answer differently without an error.
    """

    def __init__(self) -> None:
        """Nobody is inside."""
        self._changed = threading.Condition()
        self._computing = 0
        self._loading = False
        self._loads_waiting = 0

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Held while a model computes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading and not self._loads_waiting)
            self._computing += 1
        try:
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._changed.notify_all()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Held while a checkpoint is loaded; goes before computations that have not begun."""
        with self._changed:
            self._loads_waiting += 1
            self._changed.wait_for(lambda: not self._loading and not self._computing)
            self._loads_waiting -= 1
            self._loading = True
        try:
            yield
        finally:
            with self._changed:
                self._loading = False
                self._changed.notify_all()
