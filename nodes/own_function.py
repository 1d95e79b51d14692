"""Functions of the user's own (a verifier, a transfer): what is refused, and how failures read."""

import inspect
from typing import Any

from ..configs import ConfigError


def check_function(function: Any, name: str) -> None:
    """Refuse an async function.

    Raises:
        ConfigError: With the argument's name.
    """
    called = getattr(function, "__call__", None)  # noqa: B004  an object's own, maybe async
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        raise ConfigError(
            f"`{name}` must be a plain function, not an async one; in an async run it is called in "
            "a thread."
        )


def refuse_awaitable(value: object) -> None:
    """Close what an async function in disguise returned.

    Raises:
        TypeError: It is to be awaited.
    """
    if inspect.iscoroutine(value):
        value.close()
    if inspect.isawaitable(value):
        raise TypeError("it returned something to await; give a plain function")


def failure(name: str, error: Exception) -> str:
    """One sentence for a call's `error`."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"The {name} failed: {reason}"
