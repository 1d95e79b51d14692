"""Why a model stopped, from the many places where chat model packages say it."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

_KEYS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")

_LIMITS = {
    "length",
    "max_tokens",
    "max_output_tokens",
    "max_length",
    "model_length",
    "model_context_window_exceeded",
}


def finish_reason(message: AIMessage) -> str | None:
    """The reason, as the package words it, but "length" for every way to say "at its limit"."""
    for reason in _reasons(message.response_metadata):
        text = reason if isinstance(reason, str) else _inner(reason)
        if text:
            return "length" if text.lower() in _LIMITS else text
    return None


def _reasons(metadata: Mapping[str, Any]) -> list[Any]:
    # OpenAI's Responses API: {"status": "incomplete", "incomplete_details": {"reason": ...}}
    details = metadata.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    return [reason, *(metadata.get(key) for key in _KEYS)]


def _inner(reason: Any) -> str:
    """The text in a reason that is an object or a list: `{"type": "length"}`, `["length"]`."""
    if isinstance(reason, Mapping):
        reason = list(reason.values())
    if isinstance(reason, list | tuple):
        return next((one for one in reason if isinstance(one, str) and one), "")
    return "" if reason is None else str(getattr(reason, "name", reason))  # an enum's member
