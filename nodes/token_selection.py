"""Which tokens of a reasoning are kept: the smallest set that holds a share of the attention.

Weights are compared exactly, so that a tie is a tie on every machine, and a share means the decimal
that it is written as: of five equal weights, 0.8 keeps four.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsFloat


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that are kept or left out together: one, or several that share a character.

    Attributes:
        start: Where it begins in the reasoning, in characters; the first one begins at 0, and each
            one where the one before it ends, special tokens left aside.
        end: Where it ends.
        tokens: How many tokens it is.
        weight: Its attention, a whole number in a unit that all pieces of a reasoning share.
    """

    start: int
    end: int
    tokens: int
    weight: int


def read_pieces(
    length: int,
    spans: Sequence[tuple[int, int]],
    special: Sequence[bool],
    weights: Iterable[SupportsFloat],
) -> list[Piece]:
    """The pieces of a reasoning; special tokens are in none, so that nothing can keep them.

    Characters that a tokenizer gives to no token (white space, often) belong to the piece behind
    them, and those at the end to the last one.

    Args:
        length: Characters of the reasoning.
        spans: Start and end of each token, in order.
        special: Which tokens are special.
        weights: The attention on each token, 0 or more, of any numeric type.

    Raises:
        ValueError: A weight that is no such number, spans that do not lie in the reasoning, or
            more of one than of another.
    """
    pieces: list[Piece] = []
    end, joinable = 0, False
    for (first, last), skipped, weight in zip(spans, special, _exact(weights), strict=True):
        if not 0 <= first <= last <= length:
            raise ValueError(f"the token at {first} to {last} is not within {length} characters")
        start, shares = end, joinable and first < end and first < last
        end = max(end, last)
        joinable = not skipped
        if skipped:
            continue
        if shares:
            before = pieces.pop()
            start, weight = before.start, weight + before.weight  # noqa: PLW2901
        pieces.append(Piece(start, end, before.tokens + 1 if shares else 1, weight))
    if pieces and joinable and end < length:
        rest = pieces.pop()
        pieces.append(Piece(rest.start, length, rest.tokens, rest.weight))
    return pieces


def smallest_set(pieces: Sequence[Piece], share: float) -> list[int]:
    """Numbers of the pieces to keep, in order: the fewest that hold a share of the weight.

    The heaviest go first, the earlier one of equals. A larger share keeps the same ones and more;
    1 keeps all, those without weight too. Where none has any weight, nothing tells them apart, and
    all are kept.

    Args:
        pieces: What `read_pieces` returned.
        share: Above 0, at most 1.
    """
    wanted = Fraction(str(share))
    total = sum(piece.weight for piece in pieces)
    if wanted >= 1 or total == 0:
        return list(range(len(pieces)))
    kept: list[int] = []
    held = 0
    for number in heaviest_first(pieces):
        kept.append(number)
        held += pieces[number].weight
        if held >= wanted * total:
            break
    return sorted(kept)


def heaviest_first(pieces: Sequence[Piece]) -> list[int]:
    """Numbers of all pieces by descending weight, the earlier one of equals first."""
    return sorted(range(len(pieces)), key=lambda number: -pieces[number].weight)


def share_held(pieces: Sequence[Piece], kept: Iterable[int]) -> float:
    """The share of the weight that some pieces hold; 1 where there is no weight to hold."""
    total = sum(piece.weight for piece in pieces)
    held = sum(pieces[number].weight for number in kept)
    return float(Fraction(held, total)) if total else 1.0


def count_tokens(pieces: Sequence[Piece], kept: Iterable[int]) -> int:
    """How many tokens some pieces are."""
    return sum(pieces[number].tokens for number in kept)


def _exact(weights: Iterable[SupportsFloat]) -> list[int]:
    """Floats as whole multiples of their smallest common unit."""
    values = [float(weight) for weight in weights]
    if wrong := [value for value in values if not math.isfinite(value) or value < 0]:
        raise ValueError(
            f"the attention on {len(wrong)} of its {len(values)} tokens is no weight "
            f"(the first is {wrong[0]}); another dtype of the model may help"
        )
    ratios = [value.as_integer_ratio() for value in values]
    unit = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (unit // denominator) for numerator, denominator in ratios]
