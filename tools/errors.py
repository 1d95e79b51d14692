"""Errors of a command: one sentence on stderr and an exit code, or a traceback with --debug."""

import functools
import re
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from ..configs import ConfigError
from .entry import BAD_INPUT, RUN_FAILED

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LANGGRAPH_NOTE = "During task with name"


class UsageError(ValueError):
    """Arguments that cannot be used; the message is one sentence."""


def reports_errors(command: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a command report what goes wrong; its option `debug` keeps the traceback."""

    @functools.wraps(command)
    def reporting(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, it is said and counted
            if kwargs.get("debug"):
                traceback.print_exc()
            else:
                for note in getattr(error, "__notes__", ()):  # such as the end of vLLM's log
                    if not note.startswith(_LANGGRAPH_NOTE):
                        _say(note)
                _say(_sentence(error))
            raise typer.Exit(_exit_code(error)) from None

    return reporting


def _exit_code(error: Exception) -> int:
    return BAD_INPUT if isinstance(error, (ConfigError, *_input_errors())) else RUN_FAILED


def _sentence(error: Exception) -> str:
    from ..benchmarks.datasets import DataListError
    from ..models.errors import ModelError
    from ..nodes.state import MAIError

    if isinstance(error, DataListError):
        return "\n".join(" ".join(line.split()) for line in str(error).splitlines())
    text = " ".join(str(error).split())
    if isinstance(error, (ConfigError, ModelError, MAIError, *_input_errors())):
        return text
    return f"An unexpected {type(error).__name__}: {text} (--debug shows where)"


def _input_errors() -> tuple[type[Exception], ...]:
    from ..benchmarks.datasets import DataError
    from ..models.images import ImageError
    from ..nodes.state import MAIInputError

    return (UsageError, MAIInputError, ImageError, DataError)


def printable(text: str) -> str:
    """Return a text without what a terminal would obey: control characters, changed directions.

    What models, servers and files say may hold them; line breaks and tabs stay.
    """
    return _CONTROL.sub("", text)


def _say(sentence: str) -> None:
    typer.echo(printable(sentence), err=True)
