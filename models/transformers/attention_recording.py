"""An attention function of transformers' own interface that records what one position attends to.

Imports torch and transformers: only modules of a loaded model import this one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "langgraph_mai_recording"

_BLOCK = 512
"""Positions whose mask is held at a time, so that no mask is as large as the prompt squared."""


class PassEnded(Exception):  # noqa: N818  (it ends a pass that did its work)
    """The highest wanted layer is recorded; nothing behind it is computed."""


class PassGivenUp(Exception):  # noqa: N818
    """Nobody waits for the result any more."""


class Recorder:
    """What is wanted of one pass, and what it has recorded.

    Attributes:
        weights: By layer, 1 for the first: the attention of the last computed position, after the
            softmax over all positions up to it, on the columns; shape (heads, columns), float32.
    """

    def __init__(
        self, layers: frozenset[int], columns: torch.Tensor, given_up: Callable[[], bool]
    ) -> None:
        """Expect a pass.

        Args:
            layers: Whose attention is wanted, 1 for the first.
            columns: Positions on which it is wanted, on the model's device.
            given_up: Asked at every layer.
        """
        self.weights: dict[int, torch.Tensor] = {}
        self._layers = layers
        self._last = max(layers)
        self._columns = columns
        self._given_up = given_up

    def reach(self, layer: int, query: torch.Tensor, key: torch.Tensor, scaling: float) -> None:
        """Take note of a layer.

        Args:
            layer: 1 for the first.
            query: The last position's, shape (heads, head dimension).
            key: Those of all positions, shape (key heads, positions, head dimension); each serves
                as many heads that follow each other.
            scaling: What products of the two are multiplied with.

        Raises:
            PassEnded: It was the last layer that is needed.
            PassGivenUp: Nobody waits any more.
        """
        if self._given_up():
            raise PassGivenUp
        if layer in self._layers:
            heads = query.shape[0]
            grouped = query.float().reshape(key.shape[0], -1, query.shape[1])
            scores = torch.matmul(grouped, key.float().transpose(1, 2)) * scaling
            weights = scores.softmax(dim=-1).reshape(heads, -1)
            self.weights[layer] = weights.index_select(1, self._columns)
        if layer == self._last:
            raise PassEnded


@contextmanager
def recording(decoder: Any, recorder: Recorder) -> Iterator[None]:
    """While this is held, a language model's layers report to a recorder.

    Args:
        decoder: The language model, of transformers, with nothing but causal attention.
        recorder: Told of every layer, in the calling thread.
    """
    before = decoder.config._attn_implementation
    token = _current.set(recorder)
    try:
        decoder.config._attn_implementation = NAME
        yield
    finally:
        decoder.config._attn_implementation = before
        _current.reset(token)


_current: ContextVar[Recorder] = ContextVar("recorder")


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """One layer of a batch of one, whose last positions are the queries'."""
    _current.get().reach(module.layer_idx + 1, query[0, :, -1], key[0], scaling)
    attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
    new, known = query.shape[2], key.shape[2] - query.shape[2]
    if not known or new == 1:
        output, _unused = attend(module, query, key, value, attention_mask, scaling=scaling)
        return output, None
    outputs = []
    for start in range(0, new, _BLOCK):
        end = min(start + _BLOCK, new)
        seen = known + end
        mask = torch.ones(end - start, seen, dtype=torch.bool, device=query.device)
        mask = mask.tril(known + start)[None, None]
        block = (query[:, :, start:end], key[:, :, :seen], value[:, :, :seen], mask)
        outputs.append(attend(module, *block, scaling=scaling)[0])
    return torch.cat(outputs, dim=1), None


def _no_mask(*_: Any, **__: Any) -> None:
    """One prompt without padding needs none: each position sees all before it."""


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, _no_mask)
