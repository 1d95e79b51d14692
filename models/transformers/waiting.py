"""Calls that wait for a model: whatever waits when the model is free goes in as one batch."""

import threading
import time
from collections.abc import Callable, Sequence

from .rows import Row

_GAP = 0.005
_LONGEST_WAIT = 0.03

JOINT_STEPS = 4
"""Tokens that running rows go on for before others have their turn, so that several do at once."""

PADDING = 1024
"""Tokens of padding that cost no more than a batch of their own."""


class WaitingRows:
    """The rows that wait for one model, and the number of calls whose prompts are being prepared.

    A call that is alone never waits for others. Where others are known to come, a batch waits for
    them: up to 5 ms for the next one and 30 ms in all.
    """

    def __init__(self, new_tokens: Callable[[Row], int]) -> None:
        """Nobody waits.

        Args:
            new_tokens: How many tokens of a row's prompt have to be computed; called in the thread
                that takes rows.
        """
        self._new_tokens = new_tokens
        self._changed = threading.Condition()
        self._rows: list[Row] = []
        self._coming = 0

    def announce(self) -> Callable[[], None]:
        """Say that a call is coming; returns what is to be called once it waits, or failed."""
        with self._changed:
            self._coming += 1
        once = threading.Lock()

        def arrived() -> None:
            if once.acquire(blocking=False):
                with self._changed:
                    self._coming -= 1
                    self._changed.notify_all()

        return arrived

    def put(self, rows: Sequence[Row]) -> None:
        """Let rows wait."""
        with self._changed:
            self._rows += rows
            self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """End all rows that wait with an error."""
        with self._changed:
            rows, self._rows = self._rows, []
        for row in rows:
            row.fail(error)

    def take(self, running: Sequence[Row]) -> list[Row]:
        """Take rows that may run together, beside those that run already.

        Args:
            running: The rows that the model has begun; the taken ones fit beside them.

        Returns:
            In the order they came; none if none waits or fits.
        """
        with self._changed:
            if not running:
                self._gather()
            taken: list[Row] = []
            left: list[Row] = []
            for row in self._rows:
                if row.done:
                    continue
                # Nobody joins running rows past one that waits for them to end.
                passed = bool(running and left)
                fits = not passed and self._fits(row, taken, running)
                if not fits:
                    left.append(row)
                elif row.begin():
                    taken.append(row)
            self._rows = left
            return taken

    def may_join(self, running: Sequence[Row], steps: int) -> bool:
        """Whether a row that waits should join the running ones now.

        Args:
            running: The rows that the model has begun.
            steps: Tokens since rows joined last. While more calls come, the running rows go on for
                a few tokens, so that several join at once.
        """
        if not self._rows:
            return False
        with self._changed:
            if self._coming and steps < JOINT_STEPS:
                return False
            first = next((row for row in self._rows if not row.done), None)
            return first is not None and self._fits(first, [], running)

    def _gather(self) -> None:
        end = time.monotonic() + _LONGEST_WAIT
        while self._coming and 0 < len(self._rows) < self._rows[0].sharing.batch_size:
            if not self._changed.wait(min(_GAP, max(0.0, end - time.monotonic()))):
                return

    def _fits(self, row: Row, taken: Sequence[Row], running: Sequence[Row]) -> bool:
        """Whether a batch stays within its bounds with one more, and wastes little on padding."""
        batch = [*running, *taken, row]
        count = len(batch)
        if count == 1:
            return True
        if count > min(one.sharing.batch_size for one in batch):
            return False
        arriving = [*taken, row]
        new = [self._new_tokens(one) for one in arriving]
        # Known and new tokens are padded apart; once computed, all of a row's are known.
        known = max(one.input_tokens - own for one, own in zip(arriving, new, strict=True))
        width = max([known + max(new), *(one.input_tokens for one in running)])
        longest = width + max(one.limit for one in batch)
        if count * longest > min(one.sharing.batch_tokens for one in batch):
            return False
        return len(new) * max(new) <= 2 * sum(new) + PADDING
