"""Which tokens of a reasoning get attention, by their texts."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...nodes.sparse_transfer import TokenGroup


@dataclass(frozen=True, slots=True)
class Overlap:
    """How alike two multisets of token texts are.

    A text that is in one m times and in the other n times is shared min(m, n) times.

    Attributes:
        jaccard: Shared texts over all of both, sum of min(m, n) over sum of max(m, n); 1 of two
            that are empty.
        of_first: Shared texts over those of the first; 1 if it is empty.
        of_second: Shared texts over those of the second.
    """

    jaccard: float
    of_first: float
    of_second: float


def token_text(reasoning: str, piece: TokenGroup) -> str:
    """A token's text without white space around it; of white space alone, its escapes.

    Args:
        reasoning: The reasoning.
        piece: One of its tokens.
    """
    text = reasoning[piece.start : piece.end]
    return text.strip() or json.dumps(text)[1:-1].replace(" ", "\u2423")


def selected_texts(
    reasoning: str, pieces: Sequence[TokenGroup], selected: Iterable[int]
) -> Counter[str]:
    """The texts of some tokens, each as often as it is selected.

    Args:
        reasoning: The reasoning.
        pieces: Its tokens.
        selected: Numbers of those that are selected.
    """
    return Counter(token_text(reasoning, pieces[number]) for number in selected)


def overlap(first: Counter[str], second: Counter[str]) -> Overlap:
    """Compare two multisets of token texts."""
    shared, either = (first & second).total(), (first | second).total()
    return Overlap(
        jaccard=shared / either if either else 1.0,
        of_first=shared / first.total() if first else 1.0,
        of_second=shared / second.total() if second else 1.0,
    )


def text_shares(reasoning: str, pieces: Sequence[TokenGroup]) -> dict[str, float]:
    """The share of the reasoning's attention that each token text has, all its places together.

    Args:
        reasoning: The reasoning.
        pieces: Its tokens.

    Returns:
        Shares by text, which add up to 1; all 0 where no token has any attention.
    """
    weights: dict[str, int] = {}
    for piece in pieces:
        text = token_text(reasoning, piece)
        weights[text] = weights.get(text, 0) + piece.weight
    whole = sum(weights.values())
    return {text: one / whole if whole else 0.0 for text, one in weights.items()}


def top(shares: Mapping[str, float], count: int) -> list[str]:
    """The texts with the largest shares, largest first; equals by their text."""
    return sorted(shares, key=lambda text: (-shares[text], text))[:count]
