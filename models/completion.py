"""One output of a local model: how it is generated, its text as it arrives, its message."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

FinishReason = Literal["stop", "length"]

_WHOLE = (("max_tokens", 1, math.inf), ("seed", 0, (1 << 63) - 1), ("top_logprobs", 0, 20))


@dataclass(frozen=True, slots=True)
class Settings:
    """How an answer is generated.

    Attributes:
        max_tokens: Limit on the output, in tokens.
        stop: The output ends before the first of these strings.
        temperature: 0 takes the likeliest token; above, tokens are drawn.
        seed: Makes drawing repeatable; None draws anew each time.
        logprobs: Whether each token's log probability is kept.
        top_logprobs: How many of the likeliest tokens are kept beside each token.
        schema: JSON schema that the output is held to; None for any output.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: One is out of range.
        """
        for name, least, most in _WHOLE:
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and least <= value <= most) and (name, value) != ("seed", None):
                allowed = f"at least {least}" if most == math.inf else f"from {least} to {most}"
                raise ValueError(f"{name} must be a whole number, {allowed}, not {value!r}.")
        number = isinstance(self.temperature, int | float)
        if not number or not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"The temperature must be a number from 0 upwards, not {self.temperature!r}."
            )
        for text in self.stop:
            # A lone surrogate is no text: no output can hold it.
            if not isinstance(text, str) or not text.encode(errors="ignore").decode() == text != "":
                raise ValueError(f"A stop string must be a text that is not empty, not {text!r}.")


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one step adds to the output: text, possibly none, and log-probabilities if wanted."""

    text: str
    logprobs: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Drafted:
    """How many tokens a draft proposed, and how many of them are in the output."""

    proposed: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished output.

    Attributes:
        text: All released text.
        input_tokens: Tokens of the prompt, images included, padding not.
        output_tokens: Generated tokens, the one that ended the output included.
        finish_reason: "stop" at the model's end token or a stop string, "length" at a limit.
        logprobs: One entry a token of the output, without the end token.
        cached_tokens: Tokens of the prompt that were computed by an earlier call.
        drafted: What became of the draft's tokens, where one proposed any.
    """

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: FinishReason
    logprobs: tuple[dict[str, Any], ...] = ()
    cached_tokens: int = 0
    drafted: Drafted | None = None


class TextStream:
    """Turn tokens into text as they arrive; all chunks together are the text of the tokens.

    Text that might be the beginning of a stop string is held back until it is clear that it is not.

    Attributes:
        text: What was released so far.
        stopped: Whether a stop string was found; the text ends before it.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = ()) -> None:
        """Start with no tokens; `decode` leaves special ones out, no stop string is empty."""
        self.text = ""
        self.stopped = False
        self._decode = decode
        self._stop = tuple(stop)
        self._held = ""
        self._tokens: list[int] = []
        # Only the last tokens are decoded again, those since `_start`: enough that a tokenizer
        # which writes a word differently at the start of a text does not do so here. Tokens before
        # `_shown` are part of the text already.
        self._start = self._shown = 0

    def push(self, token: int) -> str:
        """Add a token; returns the text that it releases, often none or more than its own."""
        self._tokens.append(token)
        known = self._decode(self._tokens[self._start : self._shown])
        whole = self._decode(self._tokens[self._start :])
        if len(whole) <= len(known) or whole.endswith("\ufffd"):  # half a character
            return ""
        self._start, self._shown = self._shown, len(self._tokens)
        return self._release(whole[len(known) :])

    def finish(self) -> str:
        """No more tokens; returns the text that was still held back."""
        known = self._decode(self._tokens[self._start : self._shown])
        rest = self._decode(self._tokens[self._start :])[len(known) :]
        released = "" if self.stopped else self._release(rest)
        released += self._held
        self.text += self._held
        self._held = ""
        return released

    def _release(self, text: str) -> str:
        pending = self._held + text
        found = [at for at in map(pending.find, self._stop) if at >= 0]
        if found:
            self.stopped = True
            released, self._held = pending[: min(found)], ""
        else:
            keep = len(pending) - max((_overlap(pending, stop) for stop in self._stop), default=0)
            released, self._held = pending[:keep], pending[keep:]
        self.text += released
        return released


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of the text that begins the stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)


def token_entry(
    decode: Callable[[Sequence[int]], str],
    token: int,
    logprob: float,
    top: Sequence[tuple[int, float]] = (),
) -> dict[str, Any]:
    """Return a token with its log probability, in the form ChatOpenAI uses.

    `top` are the likeliest tokens at this place with theirs, likeliest first.
    """

    def entry(token: int, logprob: float) -> dict[str, Any]:
        text = decode([token])
        whole = "\ufffd" not in text
        return {"token": text, "bytes": list(text.encode()) if whole else None, "logprob": logprob}

    return entry(token, logprob) | {"top_logprobs": [entry(*other) for other in top]}


def chat_result(
    completion: Completion, model_name: str, seconds: float, *, logprobs: bool
) -> ChatResult:
    """Return a finished output as LangChain's result, with log probabilities if wanted."""
    usage, metadata = _about(completion, model_name, seconds)
    if logprobs:
        metadata["logprobs"] = {"content": list(completion.logprobs)}
    message = AIMessage(completion.text, usage_metadata=usage, response_metadata=metadata)
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=metadata)])


def chat_chunk(chunk: Chunk) -> ChatGenerationChunk:
    """Return a chunk of output in LangChain's form."""
    info = {"logprobs": {"content": list(chunk.logprobs)}} if chunk.logprobs else None
    return ChatGenerationChunk(message=AIMessageChunk(content=chunk.text), generation_info=info)


def last_chat_chunk(completion: Completion, model_name: str, seconds: float) -> ChatGenerationChunk:
    """Return the empty chunk that ends a stream; it alone carries usage and metadata."""
    usage, metadata = _about(completion, model_name, seconds)
    message = AIMessageChunk(content="", usage_metadata=usage, chunk_position="last")
    return ChatGenerationChunk(message=message, generation_info=metadata)


def _about(
    completion: Completion, model_name: str, seconds: float
) -> tuple[UsageMetadata, dict[str, Any]]:
    metadata: dict[str, Any] = {
        "model_name": model_name,
        "finish_reason": completion.finish_reason,
        "seconds": seconds,
    }
    if completion.drafted is not None:
        metadata["drafted_tokens"] = completion.drafted.proposed
        metadata["accepted_tokens"] = completion.drafted.accepted
    usage = UsageMetadata(
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        total_tokens=completion.input_tokens + completion.output_tokens,
        input_token_details=InputTokenDetails(cache_read=completion.cached_tokens),
    )
    return usage, metadata
