"""One prompt on its way through a model: what is asked, what has come so far, who waits for it."""

import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any

from ..completion import Completion, Drafted, FinishReason, Piece, Settings, token_entry
from .text_stream import TextStream


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log probabilities at one place of the output.

    Attributes:
        chosen: That of the token that was chosen.
        top: Ids of the likeliest tokens with theirs, likeliest first.
    """

    chosen: float
    top: tuple[tuple[int, float], ...] = ()


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


class Row:
    """One prompt of a running generation. The model's thread writes it, the caller reads it.

    Attributes:
        prompt: The prompt as the model takes it.
        settings: How to generate.
        sharing: What it shares with others.
        draft: What writes ahead for it, a `speculation.Draft`; None for nothing.
        drafted: What became of the draft's tokens; None without one.
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
        draft: Any = None,
    ) -> None:
        """Prepare a row.

        Args:
            prompt: The prompt as the model takes it.
            limit: How many tokens may be generated.
            settings: How to generate.
            sharing: What it shares with others.
            decode: Token ids to text, special tokens left out.
            on_piece: Called for every piece of output, in the model's thread.
            draft: What writes ahead, a `speculation.Draft`.
        """
        self.prompt = prompt
        self.settings = settings
        self.sharing = sharing
        self.draft = draft
        self.drafted = None if draft is None else Drafted()
        self.cached_tokens = 0
        self.limit = limit
        self.seed = secrets.randbits(63) if settings.seed is None else settings.seed
        self.future: Future[Completion] = Future()
        self._output_tokens = 0
        self._lock = threading.Lock()
        self._begun = False
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

    def accept(self, token: int, *, ends: bool, logprobs: TokenLogprobs | None = None) -> None:
        """Take the next token.

        Args:
            token: Its id.
            ends: Whether it is an end token of the model.
            logprobs: Log probabilities at its place, where they were asked for.
        """
        self._output_tokens += 1
        if ends:
            self.finish("stop")
            return
        entries: tuple[dict[str, Any], ...] = ()
        if logprobs is not None:
            entries = (token_entry(self._decode, token, logprobs.chosen, logprobs.top),)
        self._emit(self._stream.push(token), entries)
        if self._stream.stopped:
            self.finish("stop")
        elif self._output_tokens >= self.limit:
            self.finish("length")
        elif self._stopping:
            self.finish("cancelled")

    def begin(self) -> bool:
        """Called before the model computes the row; whether it is to do so."""
        with self._lock:
            self._begun = not self._stopping
            return self._begun

    def stop(self) -> None:
        """Ask for no more; what was generated until then is the output. From any thread.

        A row that still waits for the model is done at once.
        """
        with self._lock:
            self._stopping = True
            begun = self._begun
        if not begun:
            self.finish("cancelled")

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
            drafted=self.drafted,
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
