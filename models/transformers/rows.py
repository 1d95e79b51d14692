"""One prompt on its way through a model: what is asked, what has come so far, who waits for it."""

import math
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, Literal

from .text_stream import TextStream

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
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None
    logprobs: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: One is out of range.
        """
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {self.max_tokens}.")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"The temperature must be a number from 0 upwards, which {self.temperature} is not."
            )
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"The seed must not be negative, as {self.seed} is.")
        if "" in self.stop:
            raise ValueError("A stop string must not be empty.")


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a row shares with others.

    Attributes:
        batch_size: Rows of a batch that it is in, at most.
        batch_tokens: Tokens of such a batch at most, padding and outputs included.
        prefix_cache_bytes: Memory that the keys and values of earlier prompts may take; None for
            the model's default, 0 for no reuse.
    """

    batch_size: int
    batch_tokens: int
    prefix_cache_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one token adds to the output.

    Attributes:
        text: Released text, possibly empty.
        logprobs: Log probabilities of the tokens, if they were asked for.
    """

    text: str
    logprobs: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished output.

    Attributes:
        text: All released text.
        input_tokens: Tokens of the prompt, pictures included, padding not.
        cached_tokens: How many of them were not computed, because an earlier prompt began alike.
        output_tokens: Generated tokens, the one that ended the output included.
        finish_reason: "stop" at the model's end token or a stop string, "length" at a limit,
            "cancelled" if the caller wanted no more.
        logprobs: One entry a token of the output, without the end token.
    """

    text: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    finish_reason: FinishReason
    logprobs: tuple[dict[str, Any], ...] = ()


class Row:
    """One prompt of a running generation. The model's thread writes it, the caller reads it.

    Attributes:
        prompt: The prompt as the model takes it.
        settings: How to generate.
        sharing: What it shares with others.
        cached_tokens: How many tokens of the prompt are taken from earlier prompts.
        limit: How many tokens may be generated.
        seed: What drawing starts from.
        future: Resolves to the `Completion`. Cancelling it ends the generation at the next token.
    """

    def __init__(
        self,
        prompt: Any,
        *,
        limit: int,
        settings: Settings,
        sharing: Sharing,
        decode: Callable[[Sequence[int]], str],
        on_piece: Callable[[Piece], object] | None = None,
    ) -> None:
        """Prepare a row.

        Args:
            prompt: The prompt as the model takes it.
            limit: How many tokens may be generated.
            settings: How to generate.
            sharing: What it shares with others.
            decode: Token ids to text, special tokens left out.
            on_piece: Called for every piece of output, in the model's thread.
        """
        self.prompt = prompt
        self.settings = settings
        self.sharing = sharing
        self.cached_tokens = 0
        self.limit = limit
        self.seed = secrets.randbits(63) if settings.seed is None else settings.seed
        self.future: Future[Completion] = Future()
        self._output_tokens = 0
        self._stopping = False
        self._stream = TextStream(decode, settings.stop)
        self._decode = decode
        self._logprobs: list[dict[str, Any]] = []
        self._on_piece = on_piece

    @property
    def input_tokens(self) -> int:
        """Length of the prompt, in tokens."""
        length: int = self.prompt.length
        return length

    @property
    def done(self) -> bool:
        """Whether nothing more will be generated: finished, failed or given up by the caller."""
        return self.future.done()

    def accept(self, token: int, *, ends: bool, logprob: float | None = None) -> None:
        """Take the next token.

        Args:
            token: Its id.
            ends: Whether it is an end token of the model.
            logprob: Its log probability, where that was asked for.
        """
        self._output_tokens += 1
        if ends:
            self.finish("stop")
            return
        entries = () if logprob is None else (self._entry(token, logprob),)
        self._emit(self._stream.push(token), entries)
        if self._stream.stopped:
            self.finish("stop")
        elif self._output_tokens >= self.limit:
            self.finish("length")
        elif self._stopping:
            self.finish("cancelled")

    def stop(self) -> None:
        """Ask for no more; what was generated until then is the output. From any thread."""
        self._stopping = True

    @property
    def stopping(self) -> bool:
        """Whether no more is wanted."""
        return self._stopping

    def finish(self, reason: FinishReason) -> None:
        """End the output."""
        if self.done:
            return
        self._emit(self._stream.finish())
        completion = Completion(
            text=self._stream.text,
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self._output_tokens,
            # The held-back rest may complete a stop string at the very limit.
            finish_reason="stop" if self._stream.stopped else reason,
            logprobs=tuple(self._logprobs),
        )
        try:
            self.future.set_result(completion)
        except InvalidStateError:  # the caller gave up at this moment
            return

    def fail(self, error: BaseException) -> None:
        """End with an error, unless the row is done already."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return

    def _emit(self, text: str, logprobs: tuple[dict[str, Any], ...] = ()) -> None:
        self._logprobs += logprobs
        if self._on_piece and (text or logprobs):
            self._on_piece(Piece(text, logprobs))

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._decode([token])
        whole = "\ufffd" not in text
        return {
            "token": text,
            "bytes": list(text.encode()) if whole else None,
            "logprob": logprob,
            "top_logprobs": [],
        }
