"""The `mai` command: one file a command, and what they share.

Only what is needed to read the command line is imported here, so that `mai --help` is quick.
"""

from typing import Annotated

import typer

from .. import __version__
from ..configs import list_pairs, load_pair_config
from .ask import ask
from .attention import attention
from .bench import bench
from .calibrate import calibrate
from .check import check
from .errors import reports_errors
from .evaluate import evaluate
from .options import Debug, Json, print_json
from .profile import profile
from .report import report
from .serve import serve
from .simulate import simulate


@reports_errors
def pairs(*, as_json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the pairs of models that come with the package."""
    found = [
        {
            "name": name,
            "small": pair.small.model,
            "large": pair.large.model,
            "backend": pair.backend,
            "description": pair.description,
        }
        for name, pair in ((name, load_pair_config(name)) for name in list_pairs())
    ]
    if as_json:
        print_json(found)
        return
    from .rendering import show_pairs

    show_pairs(found)


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
app.command()(calibrate)
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
