"""How far `mai evaluate` is: a line on a terminal, now and then a line in a log, every failure."""

import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from .exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from ..benchmarks.evaluation.runner import Pace

_LOG_SECONDS = 30.0


class EvaluationProgress:
    """Shows progress, and on Ctrl-C what is kept.

    On a terminal one line is kept up to date. Elsewhere a line is written every half a minute.
    """

    def __init__(self, kept: str) -> None:
        """Set up.

        Args:
            kept: What to write when the command is stopped, after how far it was.
        """
        self._console = Console(stderr=True, highlight=False)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[count]} {task.fields[pace]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("loading the models", total=None, count="", pace="")
        self._logged = time.monotonic()
        self._kept = kept
        self._done = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._stop)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        signal.signal(signal.SIGINT, self._before)

    def update(self, label: str, pace: "Pace") -> None:
        """Show how far it is.

        Args:
            label: What is being done.
            pace: How far and how fast.
        """
        self._done = pace.done
        words = _pace(pace.rate, pace.seconds_left)
        count = f"{pace.done}/{pace.total}"
        self._bar.update(
            self._task,
            description=label,
            completed=pace.done,
            total=pace.total,
            count=count,
            pace=words,
        )
        if self._console.is_terminal or not words:  # a line in a log is for its pace
            return
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            self.note(f"{label} {count} {words}")

    def resume(self, stored: int) -> None:
        """Write that an evaluation is resumed, if calls are stored already.

        Args:
            stored: Number of stored calls.
        """
        if stored:
            self.note(f"{stored} calls already stored; resuming.")

    def note(self, sentence: str) -> None:
        """Write a line."""
        self._console.print(escape(sentence), soft_wrap=True)

    def fail(self, what: str, error: str) -> None:
        """Write a line about a failure."""
        line = f"[red]failed[/red] {escape(what)}: {escape(' '.join(error.split()))}"
        self._console.print(line, soft_wrap=True)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        """End immediately: a model at work cannot be stopped, and all answers are stored."""
        show_cursor = "\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else ""
        os.write(2, f"{show_cursor}Stopped after {self._done} results. {self._kept}\n".encode())
        os._exit(INTERRUPTED)


def _pace(rate: float, seconds_left: float | None) -> str:
    if seconds_left is None:
        return ""
    minutes, seconds = divmod(round(seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    end = time.strftime("%H:%M", time.localtime(time.time() + seconds_left))
    return f"{rate:.1f}/s, {hours}:{minutes:02}:{seconds:02} left, ends at {end}"
