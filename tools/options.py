"""Options that several commands have."""

from typing import Annotated

import typer

Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback if something fails.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")
]
