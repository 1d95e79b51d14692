"""One answer of a local model: how it is generated, what comes of it, in LangChain's form."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

FinishReason = Literal["stop", "length", "cancelled"]


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
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: One is out of range.
        """
        _check_whole("max_tokens", self.max_tokens, 1, None)
        if self.seed is not None:
            _check_whole("seed", self.seed, 0, (1 << 63) - 1)
        _check_whole("top_logprobs", self.top_logprobs, 0, 20)
        number = isinstance(self.temperature, int | float)
        if not number or not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"The temperature must be a number from 0 upwards, not {self.temperature!r}."
            )
        for text in self.stop:
            if not isinstance(text, str) or not text or not _is_encodable(text):
                raise ValueError(f"A stop string must be a text that is not empty, not {text!r}.")


def _check_whole(name: str, value: object, least: int, most: int | None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number, {allowed}, not {value!r}.")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step adds to the output.

    Attributes:
        text: Released text, possibly empty.
        logprobs: Log probabilities of the tokens, if they were asked for.
    """

    text: str
    logprobs: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Drafted:
    """What became of a draft's tokens in speculative decoding.

    Attributes:
        written: Tokens that the draft wrote.
        accepted: Those of them that are in the output.
    """

    written: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished output.

    Attributes:
        text: All released text.
        input_tokens: Tokens of the prompt, pictures included, padding not.
        output_tokens: Generated tokens, the one that ended the output included.
        finish_reason: "stop" at the model's end token or a stop string, "length" at a limit,
            "cancelled" if the caller wanted no more.
        logprobs: One entry a token of the output, without the end token.
        cached_tokens: Tokens of the prompt that were computed by an earlier call.
        drafted: What became of the draft's tokens, where one wrote ahead.
    """

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: FinishReason
    logprobs: tuple[dict[str, Any], ...] = ()
    cached_tokens: int = 0
    drafted: Drafted | None = None


def token_entry(
    decode: Callable[[Sequence[int]], str],
    token: int,
    logprob: float,
    top: Sequence[tuple[int, float]] = (),
) -> dict[str, Any]:
    """A token with its log probability, in the form ChatOpenAI uses.

    Args:
        decode: Token ids to text, special tokens left out.
        token: Its id.
        logprob: Its log probability.
        top: The likeliest tokens at this place with theirs, likeliest first.
    """
    entry = _named_token(decode, token, logprob)
    return entry | {"top_logprobs": [_named_token(decode, *other) for other in top]}


def _named_token(
    decode: Callable[[Sequence[int]], str], token: int, logprob: float
) -> dict[str, Any]:
    text = decode([token])
    whole = "\ufffd" not in text
    return {"token": text, "bytes": list(text.encode()) if whole else None, "logprob": logprob}


def chat_result(
    completion: Completion, model_name: str, seconds: float, *, logprobs: bool
) -> ChatResult:
    """The finished output as LangChain's result.

    Args:
        completion: The output.
        model_name: Goes into the metadata.
        seconds: How long it took.
        logprobs: Whether log probabilities were asked for.
    """
    metadata = _metadata(completion, model_name, seconds)
    if logprobs:
        metadata["logprobs"] = {"content": list(completion.logprobs)}
    message = AIMessage(
        content=completion.text, usage_metadata=_usage(completion), response_metadata=metadata
    )
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=metadata)])


def chat_chunk(piece: Piece) -> ChatGenerationChunk:
    """A piece of output as LangChain's chunk."""
    info = {"logprobs": {"content": list(piece.logprobs)}} if piece.logprobs else None
    return ChatGenerationChunk(message=AIMessageChunk(content=piece.text), generation_info=info)


def last_chat_chunk(completion: Completion, model_name: str, seconds: float) -> ChatGenerationChunk:
    """The empty chunk that ends a stream; it alone carries usage and metadata."""
    message = AIMessageChunk(content="", usage_metadata=_usage(completion), chunk_position="last")
    info = _metadata(completion, model_name, seconds)
    return ChatGenerationChunk(message=message, generation_info=info)


def _metadata(completion: Completion, model_name: str, seconds: float) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "model_name": model_name,
        "finish_reason": completion.finish_reason,
        "seconds": seconds,
    }
    if completion.drafted is not None:
        metadata["drafted_tokens"] = completion.drafted.written
        metadata["accepted_tokens"] = completion.drafted.accepted
    return metadata


def _usage(completion: Completion) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        total_tokens=completion.input_tokens + completion.output_tokens,
        input_token_details=InputTokenDetails(cache_read=completion.cached_tokens),
    )
