"""The attention that one position of a prompt pays to a stretch of its text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

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

    def of_layers(self, layers: Sequence[int]) -> Self:
        """The same of some of its layers, in the order given.

        Raises:
            ValueError: One that was not read.
        """
        rows = [self.layers.index(layer) for layer in layers]
        return replace(
            self,
            layers=tuple(layers),
            weights=self.weights[rows],
            heads=None if self.heads is None else self.heads[rows],
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON values, single heads left out."""
        return {
            "token_ids": list(self.token_ids),
            "spans": [list(span) for span in self.spans],
            "special": list(self.special),
            "layers": list(self.layers),
            "weights": self.weights.tolist(),
            "query": self.query,
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `as_dict` returned, also after JSON."""
        import numpy as np

        return cls(
            token_ids=tuple(values["token_ids"]),
            spans=tuple((start, end) for start, end in values["spans"]),
            special=tuple(values["special"]),
            layers=tuple(values["layers"]),
            weights=np.asarray(values["weights"], dtype=np.float32),
            heads=None,
            query=values["query"],
            input_tokens=values["input_tokens"],
            cached_tokens=values["cached_tokens"],
            seconds=values["seconds"],
        )
