"""What is being done and how far it is, on stderr; and what Ctrl-C leaves behind."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.segment import Segment
from rich.table import Column
from typing_extensions import override

from .errors import printable

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


class PlainConsole(Console):
    """A console on which only Rich itself moves the cursor and sets colors, and no printed text."""

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield Segment(text, segment.style, segment.control)


class _Shown:
    """Lines below what was printed, gone when they are done; none where there is no terminal."""

    def __init__(self, *columns: ProgressColumn) -> None:
        self._console = PlainConsole(stderr=True, highlight=False)
        self._bar = Bar(
            *columns,
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class Progress(_Shown):
    """What is being done right now, a line each with its seconds."""

    def __init__(self) -> None:
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
        )
        self._running: dict[str, TaskID] = {}

    def start(self, step: str) -> None:
        """Show a step: a node of the graph, or any text."""
        self._running[step] = self._bar.add_task(_STEPS.get(step, step), total=None)

    def note(self, step: str, text: str) -> None:
        """Show a text behind a step that has started."""
        shown = f"{_STEPS.get(step, step)}  [dim]{escape(text)}[/dim]"
        self._bar.update(self._running[step], description=shown)

    def replace(self, step: str) -> None:
        """Show a step instead of all others."""
        for running in list(self._running):
            self.finish(running)
        self.start(step)

    def finish(self, step: str) -> None:
        """Take a step's line away."""
        self._bar.remove_task(self._running.pop(step))

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """Show a step until it is done."""
        self.start(step)
        try:
            yield
        finally:
            self.finish(step)


class EvaluationProgress(_Shown):
    """How far a measurement is, and on Ctrl-C what is kept.

    On a terminal one line is kept up to date. Elsewhere a line is written every half a minute.
    """

    def __init__(self, kept: str) -> None:
        """Set up.

        Args:
            kept: What to write when the command is stopped, after how far it was.
        """
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[pace]}"),
        )
        self._task = self._bar.add_task("loading the models", total=None, pace="")
        self._logged = time.monotonic()
        self._done = 0
        self._open.enter_context(says_when_stopped(lambda: f"{self._done} results so far. {kept}"))

    def update(self, label: str, pace: "Pace") -> None:
        """Show how far it is.

        Args:
            label: What is being done.
            pace: How far and how fast.
        """
        self._done = pace.done
        self._bar.update(
            self._task, description=label, completed=pace.done, total=pace.total, pace=str(pace)
        )
        # A line in a log is for its pace.
        if self._console.is_terminal or pace.seconds_left is None:
            return
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            self.note(f"{label} {pace}")

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

    def show(self, label: str, pace: "Pace", what: str, error: str | None) -> None:
        """Show how far it is, and in a line what failed.

        Args:
            label: What is being done.
            pace: How far and how fast.
            what: What the last result is about.
            error: Why it failed, if it did.
        """
        self.update(label, pace)
        if error:
            line = escape(f"{what}: {' '.join(error.split())}")
            self._console.print(f"[red]failed[/red] {line}", soft_wrap=True)


@contextmanager
def says_when_stopped(sentence: Callable[[], str]) -> Iterator[None]:
    """Write a sentence on Ctrl-C, before whatever else happens then.

    Args:
        sentence: Gives it, at that moment.
    """
    before = signal.getsignal(signal.SIGINT)

    def say(number: int, frame: FrameType | None) -> None:
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        os.write(2, f"{clear}{sentence()}\n".encode())
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, say)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
