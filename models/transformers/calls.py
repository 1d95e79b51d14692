"""One call of a chat model: its limits while it runs, its messages when it is done."""

import time
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from .rows import Completion, Piece, Row


@dataclass(frozen=True, slots=True)
class Call:
    """A call under way.

    Attributes:
        row: Its place in the running generation.
        model_name: Goes into the metadata.
        started: When the model was loaded and the call began, on the monotonic clock.
        timeout: Seconds it may take, None for no limit.
    """

    row: Row
    model_name: str
    started: float
    timeout: float | None

    def remaining(self) -> float | None:
        """Seconds left, None without a limit."""
        if self.timeout is None:
            return None
        return max(0.0, self.started + self.timeout - time.monotonic())

    def too_slow(self) -> TimeoutError:
        """The error for a call that used up its time."""
        return TimeoutError(
            f"The model {self.model_name!r} did not finish within its timeout of "
            f"{self.timeout:g} seconds; raise the timeout or lower max_tokens."
        )

    def cancel(self) -> None:
        """End the generation at its next token; without effect if it is over."""
        self.row.future.cancel()

    def result(self, completion: Completion) -> ChatResult:
        """The finished output as LangChain's result."""
        metadata = self._metadata(completion)
        if self.row.settings.logprobs:
            metadata["logprobs"] = {"content": list(completion.logprobs)}
        message = AIMessage(
            content=completion.text, usage_metadata=_usage(completion), response_metadata=metadata
        )
        return ChatResult(generations=[ChatGeneration(message=message, generation_info=metadata)])

    def chunk(self, piece: Piece) -> ChatGenerationChunk:
        """A piece of output as LangChain's chunk."""
        info = {"logprobs": {"content": list(piece.logprobs)}} if piece.logprobs else None
        return ChatGenerationChunk(message=AIMessageChunk(content=piece.text), generation_info=info)

    def last_chunk(self, completion: Completion) -> ChatGenerationChunk:
        """The empty chunk that ends a stream; it alone carries usage and metadata."""
        message = AIMessageChunk(
            content="", usage_metadata=_usage(completion), chunk_position="last"
        )
        return ChatGenerationChunk(message=message, generation_info=self._metadata(completion))

    def _metadata(self, completion: Completion) -> dict[str, Any]:
        return {
            "model_name": self.model_name,
            "finish_reason": completion.finish_reason,
            "seconds": time.monotonic() - self.started,
        }


def _usage(completion: Completion) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        total_tokens=completion.input_tokens + completion.output_tokens,
        input_token_details=InputTokenDetails(cache_read=completion.cached_tokens),
    )
