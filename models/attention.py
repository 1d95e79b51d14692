"""The attention that one position of a prompt pays to a stretch of its text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Attention on a stretch of a prompt's text, token by token.

    Weights are those after the softmax over the whole prompt, so a layer's weights on the stretch
    add up to the share of its attention that the stretch gets.

    Attributes:
        token_ids: The tokens of the stretch, in order. A token that also holds characters outside
            of it belongs to it.
        spans: For each token, the characters of the stretch that it stands for, as (start, end).
            Tokens that share one character (parts of an emoji, say) have the same span.
        special: For each token, whether it is a special one (the end of a turn, say).
        layers: The layers that were read, 1 for the first.
        weights: Mean over heads, shape (layers, tokens), float32.
        heads: Head by head, shape (layers, heads, tokens), float32; None if not asked for.
        query: Position whose attention this is, counted from the prompt's start.
        input_tokens: Tokens of the prompt, images included.
        cached_tokens: How many of them came from a prefix cache.
        seconds: Wall clock of the pass, waiting for the model included.
    """

    token_ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    special: tuple[bool, ...]
    layers: tuple[int, ...]
    weights: "NDArray[np.float32]"
    heads: "NDArray[np.float32] | None"
    query: int
    input_tokens: int
    cached_tokens: int
    seconds: float
