"""Which layers of a language model are meant, where some are asked for."""

from collections.abc import Sequence
from numbers import Integral
from typing import Literal

from .errors import ModelError

Layers = Sequence[int] | Literal["all"] | None

_PAPER_LAYER, _PAPER_LAYERS = 22, 36


def wanted_layers(layers: Layers, count: int, name: str) -> tuple[int, ...]:
    """The layers that are meant, 1 for the first.

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
    if not isinstance(layers, Sequence) or isinstance(layers, str):
        raise ModelError(f"{layers!r} are no layers; name some of 1 to {count} in a list, or all.")
    odd = [layer for layer in layers if isinstance(layer, bool) or not isinstance(layer, Integral)]
    if odd:
        raise ModelError(
            f"{odd[0]!r} is no layer; a layer is a whole number, here of 1 to {count}."
        )
    missing = [layer for layer in layers if layer not in range(1, count + 1)]
    if missing:
        raise ModelError(
            f"The model {name!r} has no layer {missing[0]!r}: its layers are 1 to {count}."
        )
    if not layers:
        raise ModelError(f"No layer is asked for; name some of 1 to {count}, or all.")
    return tuple(dict.fromkeys(layers))
