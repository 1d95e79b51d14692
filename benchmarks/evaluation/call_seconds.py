"""How long the stored calls of one run took when they were made."""

from contextvars import ContextVar

Seconds = dict[tuple[str, str], float]

call_seconds: ContextVar[Seconds | None] = ContextVar("call_seconds", default=None)
"""Where a run wants to be told how long its calls took when they were made, by role and style."""


def tell_seconds(role: str, style: str, seconds: float) -> None:
    """Tell the run that asks how long one of its calls took, or a part of it."""
    told = call_seconds.get()
    if told is not None:  # a shortened prompt is asked several times; the run counts them all
        told[role, style] = told.get((role, style), 0.0) + seconds
