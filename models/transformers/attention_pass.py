"""One prompt whose attention is wanted: what is asked, and who waits for it.

Imports torch: only modules of a loaded model import this one.
"""

import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

import torch

from ..attention import Attention
from ..errors import ModelError
from .attention_span import Stretch
from .prompt import Prompt


class AttentionPass:
    """One prompt whose attention is wanted. The model's thread works on it, the caller waits.

    Attributes:
        prompt: The prompt.
        stretch: Its tokens on which attention is wanted.
        layers: Which layers, 1 for the first.
        query: Whose attention, counted from the prompt's start.
        future: Resolves to the `Attention`. Cancelling it ends the pass at the next layer.
        prefix_cache_bytes: Memory that the keys and values of earlier prompts may take; None for
            the model's default, 0 for no reuse.
    """

    def __init__(
        self,
        prompt: Prompt,
        stretch: Stretch,
        layers: tuple[int, ...],
        *,
        query: int,
        heads: bool,
        prefix_cache_bytes: int | None,
        started: float,
    ) -> None:
        """Prepare a pass.

        Args:
            prompt: The prompt.
            stretch: Its tokens on which attention is wanted.
            layers: Which layers, 1 for the first.
            query: Whose attention, counted from the prompt's end.
            heads: Whether the weights of single heads are wanted.
            prefix_cache_bytes: As the attribute.
            started: When the call began, on the monotonic clock.

        Raises:
            ModelError: There is no such position behind the stretch, or the prompt's pictures
                cannot be told apart.
        """
        if not prompt.chain:
            raise ModelError(
                "The prompt's pictures cannot be told apart, and so its attention cannot be read; "
                "put text between them."
            )
        self.prompt = prompt
        self.stretch = stretch
        self.layers = layers
        self.query = prompt.length + query
        self.prefix_cache_bytes = prefix_cache_bytes
        self.future: Future[Attention] = Future()
        self._heads = heads
        self._started = started
        behind = prompt.length - 1 - stretch.positions[-1]
        if not -behind <= query < 0:
            last = f"-1 to -{behind}" if behind > 1 else "-1 alone"
            raise ModelError(
                f"The query {query} is not a position behind the stretch, counted from the "
                f"prompt's end; that is {last} here."
            )

    @property
    def done(self) -> bool:
        """Whether it is over: read, failed or given up by the caller."""
        return self.future.done()

    def finish(self, weights: dict[int, torch.Tensor], cached_tokens: int) -> None:
        """End with what was read.

        Args:
            weights: By layer, shape (heads, tokens of the stretch), float32.
            cached_tokens: How many tokens of the prompt were not computed.
        """
        heads = torch.stack([weights[layer] for layer in self.layers]).cpu()
        attention = Attention(
            token_ids=self.stretch.token_ids,
            spans=self.stretch.spans,
            special=self.stretch.special,
            layers=self.layers,
            weights=heads.mean(dim=1).numpy(),
            heads=heads.numpy() if self._heads else None,
            query=self.query,
            input_tokens=self.prompt.length,
            cached_tokens=cached_tokens,
            seconds=time.monotonic() - self._started,
        )
        with suppress(InvalidStateError):  # the caller gave up at this moment
            self.future.set_result(attention)

    def fail(self, error: BaseException) -> None:
        """End with an error, unless it is over."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)
