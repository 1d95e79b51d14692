"""What is being done and how far it is, on stderr; and what Ctrl-C leaves behind."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.table import Column

from .entry import INTERRUPTED

if TYPE_CHECKING:
    from ..benchmarks.evaluation.runner import Pace

_STEPS = {
    "prepare": "reading the input",
    "small_agent": "small agent answers",
    "large_agent": "large agent answers",
    "verification": "comparing the answers",
    "small_reasoning": "small agent reasons",
    "large_reasoning": "large agent reasons",
    "reasoning_verification": "comparing the reasoned answer",
    "reasoning_transfer": "reading the reasoning",
    "respond": "answering",
}

_LOG_SECONDS = 30.0


class Progress:
    """What is being done right now, a line each with its seconds; gone when it is done.

    Nothing is shown where standard error is not a terminal.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._rows = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._running: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._rows.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.stop()

    def start(self, step: str) -> None:
        """Show a step: a node of the graph, or any text."""
        self._running[step] = self._rows.add_task(_STEPS.get(step, step), total=None)

    def note(self, step: str, text: str) -> None:
        """Show a text behind a step that has started."""
        shown = f"{_STEPS.get(step, step)}  [dim]{escape(text)}[/dim]"
        self._rows.update(self._running[step], description=shown)

    def replace(self, step: str) -> None:
        """Show a step instead of all others."""
        for running in list(self._running):
            self.finish(running)
        self.start(step)

    def finish(self, step: str) -> None:
        """Take a step's line away."""
        self._rows.remove_task(self._running.pop(step))


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
