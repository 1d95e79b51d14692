"""How far `mai profile` is: the last row on a terminal, now and then a line in a log."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from .rendering import Progress
from .stop_signals import says_when_stopped

if TYPE_CHECKING:
    from ..profiling.profile_rows import ProfileRow
    from ..profiling.target import Target

_LOG_SECONDS = 30.0
_STEP = "profile"


class ProfileProgress:
    """Shows each row as it is measured, and says on Ctrl-C what is kept."""

    def __init__(self, known: int, kept: str) -> None:
        """Nothing is shown yet.

        Args:
            known: Rows that an earlier run measured.
            kept: What to say when the command is stopped.
        """
        self._known = known
        self._rows = 0
        self._logged = time.monotonic()
        self._progress = Progress()
        self._stopping = says_when_stopped(
            lambda: f"{max(self._rows, known)} rows are measured. {kept}"
        )

    def __enter__(self) -> Self:
        if self._known:
            typer.echo(f"{self._known} rows were measured before; going on.", err=True)
        self._stopping.__enter__()
        self._progress.__enter__()
        self._progress.start(_STEP)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.__exit__(kind, error, traceback)
        self._stopping.__exit__(kind, error, traceback)

    def note(self, target: "Target", row: "ProfileRow") -> None:
        """Show a row.

        Args:
            target: The model.
            row: What was measured or skipped of it.
        """
        self._rows += 1
        result = row.skipped or f"{row.median_ms:.2f} ms"
        sizes = f"{row.image_side} px, {row.input_tokens} + {row.output_tokens} tokens"
        said = f"{target.name}, {target.backend}: {row.component}, {sizes}: {result}"
        self._progress.note(_STEP, said)
        if sys.stderr.isatty() or time.monotonic() - self._logged < _LOG_SECONDS:
            return
        self._logged = time.monotonic()
        typer.echo(f"row {self._rows}, {said}", err=True)
