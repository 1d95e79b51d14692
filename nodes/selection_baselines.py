"""Other ways to keep as many tokens of a reasoning, to show what selecting by attention buys.

None keeps more tokens than its budget, and none keeps nothing. As many are kept as the budget has
room for; only tokens that share a character with others, and whole sentences, can leave some of it.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from random import Random

from .token_selection import Piece, count_tokens, heaviest_first

_SENTENCE_END = re.compile(r"\n\s*|(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])\s*")


def keep_last(pieces: Sequence[Piece], budget: int) -> list[int]:
    """The end of the reasoning.

    Args:
        pieces: What `read_pieces` returned.
        budget: How many tokens may be kept; there must be a piece of no more.
    """
    return _fill(pieces, budget, ([number] for number in reversed(range(len(pieces)))))


def keep_at_random(pieces: Sequence[Piece], budget: int, seed: str) -> list[int]:
    """Any tokens; for one seed always the same."""
    order = list(range(len(pieces)))
    Random(seed).shuffle(order)
    return _fill(pieces, budget, ([number] for number in order))


def keep_heaviest(pieces: Sequence[Piece], budget: int) -> list[int]:
    """The tokens with most weight, the earlier one of equals."""
    return _fill(pieces, budget, ([number] for number in heaviest_first(pieces)))


def keep_sentences(pieces: Sequence[Piece], budget: int, text: str) -> list[int]:
    """Whole sentences (lines are sentences too): those with the most weight a token, that fit.

    Where not even one fits, the heaviest tokens of the best sentence are kept.

    Args:
        pieces: What `read_pieces` returned.
        budget: How many tokens may be kept.
        text: The reasoning.
    """
    sentences = _sentences(pieces, text)
    sentences.sort(key=lambda numbers: -_mean_weight(pieces, numbers))
    if whole := _fill(pieces, budget, sentences):
        return whole
    best = set(sentences[0]) if sentences else set()
    order = sorted(heaviest_first(pieces), key=lambda number: number not in best)
    return _fill(pieces, budget, ([number] for number in order))


def reweighted(pieces: Sequence[Piece], others: Sequence[Piece]) -> list[Piece]:
    """The same pieces with the weights of another tokenizer's pieces of the same text.

    Each of these spreads its weight evenly over its characters.
    """
    at_character = [Fraction(0)] * max((piece.end for piece in [*pieces, *others]), default=0)
    for piece in others:
        size = piece.end - piece.start
        at_character[piece.start : piece.end] = [Fraction(piece.weight, size or 1)] * size
    held = [sum(at_character[piece.start : piece.end], Fraction(0)) for piece in pieces]
    unit = math.lcm(*(weight.denominator for weight in held))
    return [
        Piece(piece.start, piece.end, piece.tokens, int(weight * unit))
        for piece, weight in zip(pieces, held, strict=True)
    ]


def _fill(pieces: Sequence[Piece], budget: int, bundles: Iterable[Sequence[int]]) -> list[int]:
    """The pieces of each bundle in turn that the rest of the budget has room for, in order."""
    kept: list[int] = []
    for numbers in bundles:
        tokens = count_tokens(pieces, numbers)
        if tokens <= budget:
            budget -= tokens
            kept += numbers
    return sorted(kept)


def _sentences(pieces: Sequence[Piece], text: str) -> list[list[int]]:
    """Numbers of the pieces of each sentence; a piece is where its last character is."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    sentences: dict[int, list[int]] = {}
    for number, piece in enumerate(pieces):
        sentences.setdefault(bisect_left(ends, piece.end), []).append(number)
    return list(sentences.values())


def _mean_weight(pieces: Sequence[Piece], numbers: Sequence[int]) -> Fraction:
    weight = sum(pieces[number].weight for number in numbers)
    return Fraction(weight, count_tokens(pieces, numbers))
