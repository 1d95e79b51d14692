"""What a model's message says: text, reasoning, tokens, why it stopped, why there is no answer.

Packages say each of these in a place of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage

from ..models.errors import ModelError
from .confidence import read_logprobs

_FINISH_KEYS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")

_LIMITS = {
    "length",
    "max_tokens",
    "max_output_tokens",
    "max_length",
    "model_length",
    "model_context_window_exceeded",
}

_THOUGHTS = ("reasoning", "thinking", "reasoning_content")

_FILTERS = {"content_filter", "content_filtered", "refusal", "safety", "guardrail_intervened"}


class TooLong(NamedTuple):
    """A prompt that exceeds the model's context, in tokens; None where the model does not say.

    Attributes:
        limit: What the context holds, answer included.
        length: The prompt.
        answer: What the answer may have.
    """

    limit: int | None
    length: int | None
    answer: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's output, or one sentence that says why there is none.

    Attributes:
        seconds: Wall clock of the call.
        text: The output; empty if the call failed.
        input_tokens: Tokens of the prompt; None if the model does not say.
        output_tokens: Tokens generated; None if the model does not say.
        cached_tokens: Tokens of the prompt that came from a prefix cache; None if unknown.
        finish_reason: Why the model stopped, "length" for every way to say "at its limit".
        drafted_tokens: In speculative decoding: tokens that the draft model proposed.
        accepted_tokens: How many of them are in the output.
        error: Why the call failed.
        too_long: Set if it failed because the prompt was longer than the model's context.
        cached: Whether it came from a `CallCache`.
        reasoning: What the model thought in a channel of its own.
        logprobs: Its tokens with their log-probabilities, as `confidence.Tokens`; None if the model
            gives none.
    """

    seconds: float
    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    error: str | None = None
    too_long: TooLong | None = None
    cached: bool = False
    reasoning: str = ""
    logprobs: list[list[Any]] | None = None

    @classmethod
    def read(cls, message: AIMessage, seconds: float) -> "Reply":
        """Read a model's message.

        Raises:
            ModelError: There is no answer, because the model refused or a filter took it away.
        """
        usage: Mapping[str, Any] = message.usage_metadata or {}
        metadata, text = message.response_metadata, str(message.text)
        finish_reason = _finish_reason(metadata)
        if not text.strip() and (refusal := _refusal(message, finish_reason)):
            raise ModelError(f"the model gave no answer ({refusal})")
        return cls(
            seconds,
            text,
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("input_token_details", {}).get("cache_read"),
            finish_reason,
            metadata.get("drafted_tokens"),
            metadata.get("accepted_tokens"),
            reasoning=_reasoning(message),
            logprobs=read_logprobs(metadata),
        )


def too_long(error: Exception, answer: int) -> TooLong | None:
    """Read an error about a prompt that was too long; None if it is about something else."""
    if not isinstance(error, ContextOverflowError):
        return None
    return TooLong(getattr(error, "limit", None), getattr(error, "length", None), answer)


def _reasoning(message: AIMessage) -> str:
    """Return what a model thought, from the places where packages put it."""
    thoughts = [
        one
        for block in (message.content if isinstance(message.content, list) else ())
        if isinstance(block, dict) and block.get("type") in _THOUGHTS
        for one in _thoughts(block)
    ]
    kept = message.additional_kwargs
    return "\n".join(thoughts) or str(kept.get("reasoning_content") or kept.get("reasoning") or "")


def _thoughts(block: Mapping[str, Any]) -> list[str]:
    """Return the texts of a block: of LangChain, Anthropic, Bedrock, or a summary of OpenAI."""
    if isinstance(summary := block.get("summary"), list):
        return [str(part.get("text", "")) for part in summary if isinstance(part, Mapping)]
    found = next((block[key] for key in (*_THOUGHTS, "text") if block.get(key)), "")
    text = found.get("text", "") if isinstance(found, Mapping) else found
    return [str(text)] if text else []


def _refusal(message: AIMessage, finish_reason: str | None) -> str | None:
    """Return why a model gives no answer, if it says that it will not."""
    blocks = message.content if isinstance(message.content, list) else ()
    said = [block.get("refusal") for block in blocks if isinstance(block, dict)]
    said.append(message.additional_kwargs.get("refusal"))
    filtered = str(finish_reason).lower() in _FILTERS
    return next((str(one) for one in said if one), finish_reason if filtered else None)


def _finish_reason(metadata: Mapping[str, Any]) -> str | None:
    """Return why a model stopped, from the many places where packages say it."""
    # OpenAI's Responses API: {"status": "incomplete", "incomplete_details": {"reason": ...}}
    details = metadata.get("incomplete_details")
    first = details.get("reason") if isinstance(details, Mapping) else None
    for reason in (first, *(metadata.get(key) for key in _FINISH_KEYS)):
        values = [reason]
        if isinstance(reason, Mapping | list | tuple):  # {"type": "length"}, ["length"]
            values = list(reason.values() if isinstance(reason, Mapping) else reason)
        texts = [getattr(one, "name", one) for one in values]  # an enum's member has a name
        if text := next((one for one in texts if isinstance(one, str) and one), None):
            return "length" if text.lower() in _LIMITS else text
    return None
