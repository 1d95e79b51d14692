"""The attention that one position of a prompt pays to a span of its text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

from .errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Layers = Sequence[int] | Literal["all"] | None

_PAPER_LAYER, _PAPER_LAYERS = 22, 36


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Attention on a span of a prompt's text, token by token.

    Weights are those after the softmax over the whole prompt, so a layer's weights on the span
    add up to the share of its attention that the span gets.

    Attributes:
        token_ids: The tokens of the span, in order. A token that also holds characters outside
            of it belongs to it.
        spans: For each token, the characters of the span that it stands for, as (start, end).
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
        """Return the same of some of its layers, in this order.

        Raises:
            ValueError: One that was not read.
        """
        rows = [self.layers.index(layer) for layer in layers]
        heads = None if self.heads is None else self.heads[rows]
        return replace(self, layers=tuple(layers), weights=self.weights[rows], heads=heads)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values, single heads left out."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "heads"}
        return {**values, "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `as_dict` returned, also after JSON."""
        import numpy as np

        sequences = {name: tuple(values[name]) for name in ("token_ids", "special", "layers")}
        spans = tuple((start, end) for start, end in values["spans"])
        weights = np.asarray(values["weights"], dtype=np.float32)
        return cls(**{**values, **sequences, "spans": spans, "weights": weights, "heads": None})


def wanted_layers(layers: Layers, count: int, name: str) -> tuple[int, ...]:
    """Return the layers that are meant, 1 for the first.

    Args:
        layers: Some; "all"; None for the one at the depth of layer 22 of 36, at which the paper's
            sparse transfer does best for its tokens.
        count: How many there are.
        name: What the model is called in error messages.

    Returns:
        Without repetitions, in the order they are asked for.

    Raises:
        ModelError: There is no such layer, none is asked for, or what is asked for is no layers.
    """
    if layers is None:
        return (max(1, round(count * _PAPER_LAYER / _PAPER_LAYERS)),)
    if layers == "all":
        return tuple(range(1, count + 1))
    whole = isinstance(layers, Sequence) and all(
        isinstance(layer, Integral) and not isinstance(layer, bool) for layer in layers
    )
    if not layers or not whole:
        raise ModelError(f"{layers!r} are no layers; name some of 1 to {count} in a list, or all.")
    if missing := [layer for layer in layers if layer not in range(1, count + 1)]:
        raise ModelError(
            f"The model {name!r} has no layer {missing[0]!r}: its layers are 1 to {count}."
        )
    return tuple(dict.fromkeys(layers))
