"""What one pass over a reasoning measured: tokens by layer, and figures head by head."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ...models.attention import Attention
from ...nodes.sparse_transfer import TokenGroup, count_tokens, read_token_groups, smallest_set

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPass:
    """The attention on a reasoning, reduced: token by token for the mean over heads only.

    Attributes:
        reasoning: What was read, without white space around it.
        attention: The attention in the mean over heads, all layers.
        head_totals: The attention on all tokens of the reasoning together, shape (layers, heads);
            empty if the source tells no single heads.
        head_tokens: How many tokens hold the share of it, same shape.
    """

    reasoning: str
    attention: Attention
    head_totals: Rows
    head_tokens: Rows

    @classmethod
    def of(cls, reasoning: str, attention: Attention, share: float) -> Self:
        """Reduce a pass.

        Args:
            reasoning: What was read.
            attention: What a pass over all layers gave, head by head if it can.
            share: Of which share of the attention the tokens are counted.

        Raises:
            ValueError: Attention that is not a number, or a reasoning without tokens.
        """
        totals, tokens = [], []
        for layer in attention.heads if attention.heads is not None else ():
            pieces = [_pieces(reasoning, attention, weights) for weights in layer]
            totals.append(tuple(_total(attention, weights) for weights in layer))
            tokens.append(tuple(float(tokens_needed(one, share)) for one in pieces))
        kept = replace(attention, heads=None)
        made = cls(reasoning, kept, tuple(totals), tuple(tokens))
        if not made.pieces(attention.layers[0]):
            raise ValueError("the reasoning has no tokens")
        return made

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers, 1 for the first."""
        return self.attention.layers

    def pieces(self, layer: int) -> list[TokenGroup]:
        """The tokens with their attention at a layer, in the mean over heads.

        Args:
            layer: 1 for the first.

        Raises:
            ValueError: The attention is not a number, or the layer was not read.
        """
        weights = self.attention.weights[self.layers.index(layer)]
        return _pieces(self.reasoning, self.attention, weights)

    def total(self, layer: int) -> float:
        """The attention on the reasoning at a layer, in the mean over heads.

        Args:
            layer: 1 for the first.

        Returns:
            A share of the layer's attention on the whole prompt, special tokens left aside.

        Raises:
            ValueError: The layer was not read.
        """
        return _total(self.attention, self.attention.weights[self.layers.index(layer)])

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "reasoning": self.reasoning,
            "attention": self.attention.as_dict(),
            "head_totals": [list(row) for row in self.head_totals],
            "head_tokens": [list(row) for row in self.head_tokens],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `as_dict` returned, also after JSON."""
        return cls(
            reasoning=values["reasoning"],
            attention=Attention.from_dict(values["attention"]),
            head_totals=tuple(tuple(row) for row in values["head_totals"]),
            head_tokens=tuple(tuple(row) for row in values["head_tokens"]),
        )


def tokens_needed(pieces: list[TokenGroup], share: float) -> int:
    """How many tokens the smallest set has that holds a share of the attention.

    Args:
        pieces: The tokens.
        share: Above 0, at most 1.
    """
    return count_tokens(pieces, smallest_set(pieces, share))


def _total(attention: Attention, weights: Any) -> float:
    return float(
        sum(float(one) for one, skip in zip(weights, attention.special, strict=True) if not skip)
    )


def _pieces(reasoning: str, attention: Attention, weights: Any) -> list[TokenGroup]:
    return read_token_groups(len(reasoning), attention.spans, attention.special, weights)
