"""From the steps of a vLLM request to pieces of text and a finished output."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..completion import Chunk, Completion, FinishReason, token_entry


class Output:
    """Collects the steps of one request, each holding what is new in it."""

    def __init__(self, decode: Callable[[Sequence[int]], str], top_logprobs: int = 0) -> None:
        """Start empty.

        Args:
            decode: Token ids to text, special tokens left out.
            top_logprobs: How many of the likeliest tokens are listed beside each token.
        """
        self._decode = decode
        self._top = top_logprobs
        self._text = ""
        self._input_tokens = 0
        self._cached_tokens = 0
        self._output_tokens = 0
        self._logprobs: list[dict[str, Any]] = []
        self._finish_reason: FinishReason = "stop"

    def add(self, step: Any) -> Chunk:
        """Take a step (a `RequestOutput` that holds what is new)."""
        self._input_tokens = len(step.prompt_token_ids or ())
        # Some steps do not say it.
        self._cached_tokens = max(self._cached_tokens, step.num_cached_tokens or 0)
        (new,) = step.outputs
        self._text += new.text
        self._output_tokens += len(new.token_ids)
        if new.finish_reason:
            self._finish_reason = "length" if new.finish_reason == "length" else "stop"
        entries = self._entries(new)
        self._logprobs += entries
        return Chunk(new.text, tuple(entries))

    def completion(self) -> Completion:
        """The finished output."""
        return Completion(
            text=self._text,
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            finish_reason=self._finish_reason,
            logprobs=tuple(self._logprobs),
            cached_tokens=self._cached_tokens,
        )

    def _entries(self, new: Any) -> list[dict[str, Any]]:
        if not new.logprobs:
            return []
        tokens = list(new.token_ids)
        # A token that ended the output has no text; a stop string ends it as text.
        ended = new.finish_reason == "stop" and not isinstance(new.stop_reason, str)
        kept = tokens[:-1] if ended else tokens
        return [self._entry(token, at) for token, at in zip(kept, new.logprobs, strict=False)]

    def _entry(self, token: int, at: Mapping[int, Any]) -> dict[str, Any]:
        """A token's entry; `at` has its log probability, and those of the likeliest ones."""
        # The token itself is among them even if it is not one of the likeliest.
        likeliest = sorted(at, key=lambda other: at[other].rank)[: self._top]
        top = [(other, at[other].logprob) for other in likeliest]
        return token_entry(self._decode, token, at[token].logprob, top)
