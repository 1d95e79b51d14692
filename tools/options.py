"""Options that several commands have, and arguments made readable."""

import os
from typing import Annotated

import typer

from .errors import UsageError

PairName = Annotated[str, typer.Option(help="A pair's name (see `mai pairs`) or file.")]
Debug = Annotated[
    bool, typer.Option("--debug", metavar="", help="Show a traceback if something fails.")
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", metavar="", help="Print JSON on standard output, and nothing else there."
    ),
]


def readable(text: str, what: str) -> str:
    """An argument as text.

    In a locale without UTF-8, and for bytes that are no text in any, Python passes arguments on
    with half characters in them.

    Args:
        text: The argument.
        what: What it is called in the error message.

    Raises:
        UsageError: It is not UTF-8 either.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(text).decode()
        except UnicodeError as error:
            raise UsageError(f"{what} {text!a} is not valid UTF-8; write it in UTF-8.") from error
    return text
