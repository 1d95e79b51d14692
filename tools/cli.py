"""The `mai` command: one file a command, and what they share.

Only what is needed to read the command line is imported here, so that `mai --help` is quick.
"""

import os
import sys
import threading
from typing import Annotated

import typer

from .. import __version__
from .ask import ask
from .check import check
from .pairs_command import pairs

app = typer.Typer(
    name="mai",
    help="A small and a large vision-language model answer questions about images together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(ask)
app.command()(pairs)
app.command()(check)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mai {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and end the process: 0 done, 1 a run failed, 2 bad usage or input."""
    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        code = 130
    else:
        code = 0
    _leave(code)


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not flush into the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    if threading.active_count() > 1:
        # A model that still loads or answers after a failure or Ctrl-C is not waited for.
        os._exit(code)
    sys.exit(code)
