"""How good a draft was: the accept rate of speculative decoding."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import ModelCall


def accept_rate(calls: "Iterable[ModelCall]") -> float | None:
    """Of all tokens that drafts wrote in these calls, the share that is in the outputs.

    Returns:
        None if no draft wrote any.
    """
    written = accepted = 0
    for call in calls:
        written += call.get("drafted_tokens", 0)
        accepted += call.get("accepted_tokens", 0)
    return accepted / written if written else None
