"""Ctrl-C, SIGTERM and a closed terminal, for commands that have something to end first."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def says_when_stopped(sentence: Callable[[], str]) -> Iterator[None]:
    """Write a sentence on Ctrl-C, before whatever else happens then.

    Args:
        sentence: Gives it, at that moment.
    """
    before = signal.getsignal(signal.SIGINT)

    def say(number: int, frame: FrameType | None) -> None:
        os.write(2, f"{sentence()}\n".encode())
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, say)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class StopSignals:
    """Counts the signals that ask this process to end, which then does not end by itself."""

    def __init__(self) -> None:
        """Take the signals over, for good. Only the main thread may.

        What is ignored stays so: `nohup` wants a command to outlive its terminal.
        """
        self._count = 0
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    @property
    def asked(self) -> bool:
        """Whether one came."""
        return self._count > 0

    @property
    def asked_again(self) -> bool:
        """Whether more than one came: whoever sent them does not want to wait."""
        return self._count > 1

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        # No lock: the handler may interrupt the very code that holds it.
        self._count += 1
