"""The `mai` command: one file a command, and what they share.

Only what is needed to read the command line is imported here, so that `mai --help` is quick.
"""

from typing import Annotated

import typer

from .. import __version__
from .ask import ask
from .attention import attention
from .bench import bench
from .check import check
from .evaluate import evaluate
from .pairs_command import pairs
from .profile import profile
from .report import report
from .serve import serve
from .simulate import simulate

app = typer.Typer(
    name="mai",
    help="A small and a large vision-language model answer questions about images together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(ask)
app.command()(pairs)
app.command()(check)
app.command()(evaluate)
app.command()(report)
app.command()(attention)
app.command()(serve)
app.command()(bench)
app.command()(profile)
app.command()(simulate)


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
