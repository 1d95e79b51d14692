"""Sparse transfer: the tokens of a reasoning that its reader attends to most.

The attention is taken from the very prompt that full transfer would send. By the prefix rule it
begins like the reader's direct answer, so that images and question are not computed again. Kept is
the smallest set of tokens that holds a share of it (Section 4.2 and Figure 5 of arXiv 2604.04929);
other ways to keep as many tokens (`keep`) show what selecting by attention is worth. Weights are
compared exactly, so that a tie is a tie on every machine, and a share means the decimal that it is
written as: of five equal weights, 0.8 keeps four.
"""

import math
import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import SupportsFloat

from ..configs import SparseTransfer
from ..models.attention import Attention
from .state import Selection

Span = tuple[int, int]

_SENTENCE_END = re.compile(r"\n\s*|(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])\s*")


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """Tokens that are kept or dropped together: one, or several that share a character.

    Attributes:
        start: Where it begins in the reasoning, in characters; the first one begins at 0, and each
            one where the one before it ends, special tokens left aside.
        end: Where it ends.
        tokens: How many tokens it is.
        weight: Its attention, a whole number in a unit that all groups of a reasoning share.
    """

    start: int
    end: int
    tokens: int
    weight: int


def read_token_groups(
    length: int,
    spans: Sequence[tuple[int, int]],
    special: Sequence[bool],
    weights: Iterable[SupportsFloat],
) -> list[TokenGroup]:
    """Return the groups of a reasoning; special tokens are in none, so that nothing can keep them.

    Characters that a tokenizer gives to no token (white space, often) belong to the group behind
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
    groups: list[TokenGroup] = []
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
            before = groups.pop()
            start, weight = before.start, weight + before.weight  # noqa: PLW2901
        groups.append(TokenGroup(start, end, before.tokens + 1 if shares else 1, weight))
    if groups and joinable and end < length:
        rest = groups.pop()
        groups.append(TokenGroup(rest.start, length, rest.tokens, rest.weight))
    return groups


def smallest_set(groups: Sequence[TokenGroup], share: float) -> list[int]:
    """Return the numbers of the fewest groups that hold a share of the weight, in order.

    The heaviest go first, the earlier one of equals. A larger share keeps the same ones and more;
    1 keeps all, those without weight too. Where none has any weight, nothing tells them apart, and
    all are kept.

    Args:
        groups: What `read_token_groups` returned.
        share: Above 0, at most 1.
    """
    wanted = Fraction(str(share))
    total = sum(group.weight for group in groups)
    if wanted >= 1 or total == 0:
        return list(range(len(groups)))
    kept: list[int] = []
    held = 0
    for number in heaviest_first(groups):
        kept.append(number)
        held += groups[number].weight
        if held >= wanted * total:
            break
    return sorted(kept)


def heaviest_first(groups: Sequence[TokenGroup]) -> list[int]:
    """Return the numbers of all groups by descending weight, the earlier one of equals first."""
    return sorted(range(len(groups)), key=lambda number: -groups[number].weight)


def share_held(groups: Sequence[TokenGroup], kept: Iterable[int]) -> float:
    """Return the share of the weight that some groups hold; 1 where there is no weight to hold."""
    total = sum(group.weight for group in groups)
    held = sum(groups[number].weight for number in kept)
    return float(Fraction(held, total)) if total else 1.0


def count_tokens(groups: Sequence[TokenGroup], kept: Iterable[int]) -> int:
    """Return how many tokens some groups are."""
    return sum(groups[number].tokens for number in kept)


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


def kept_spans(groups: Sequence[TokenGroup], kept: Iterable[int]) -> list[Span]:
    """Return the spans that some groups cover, in characters, in order, none touching another."""
    spans: list[Span] = []
    for number in kept:
        start, end = groups[number].start, groups[number].end
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        if start < end:
            spans.append((start, end))
    return spans


def kept_text(text: str, spans: Iterable[Span]) -> str:
    """Join the spans of a text.

    Where something was dropped between two, they stand apart: by white space that one of them has
    there, or else by one space.
    """
    made = ""
    for start, end in spans:
        part = text[start:end]
        apart = not made or made[-1].isspace() or part[0].isspace()
        made += part if apart else f" {part}"
    return made


def keep_in_order(groups: Sequence[TokenGroup], budget: int, order: Iterable[int]) -> list[int]:
    """Keep the groups that come first in an order and fit into a budget of tokens."""
    return _fill(groups, budget, ([number] for number in order))


def keep_sentences(groups: Sequence[TokenGroup], budget: int, text: str) -> list[int]:
    """Keep whole sentences, or lines: those with the most weight per token that fit.

    Where not even one fits, the heaviest tokens of the best sentence are kept.
    """
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    sentences: dict[int, list[int]] = {}
    for number, group in enumerate(groups):  # a group is where its last character is
        sentences.setdefault(bisect_left(ends, group.end), []).append(number)

    def density(numbers: Sequence[int]) -> Fraction:
        weight = sum(groups[number].weight for number in numbers)
        return Fraction(weight, count_tokens(groups, numbers))

    best_first = sorted(sentences.values(), key=density, reverse=True)
    if whole := _fill(groups, budget, best_first):
        return whole
    best = set(best_first[0]) if best_first else set()
    return keep_in_order(
        groups, budget, sorted(heaviest_first(groups), key=lambda n: n not in best)
    )


def reweighted(groups: Sequence[TokenGroup], others: Sequence[TokenGroup]) -> list[TokenGroup]:
    """Return the same groups with the weights of another tokenizer's groups of the same text.

    Each of these spreads its weight evenly over its characters.
    """
    at_character = [Fraction(0)] * max((group.end for group in [*groups, *others]), default=0)
    for group in others:
        size = group.end - group.start
        at_character[group.start : group.end] = [Fraction(group.weight, size or 1)] * size
    held = [sum(at_character[group.start : group.end], Fraction(0)) for group in groups]
    unit = math.lcm(*(weight.denominator for weight in held))
    return [
        TokenGroup(group.start, group.end, group.tokens, int(weight * unit))
        for group, weight in zip(groups, held, strict=True)
    ]


def _fill(groups: Sequence[TokenGroup], budget: int, bundles: Iterable[Sequence[int]]) -> list[int]:
    """Return the groups of each bundle in turn that fit into the rest of the budget, in order."""
    kept: list[int] = []
    for numbers in bundles:
        tokens = count_tokens(groups, numbers)
        if tokens <= budget:
            budget -= tokens
            kept += numbers
    return sorted(kept)


def select_tokens(
    sparse: SparseTransfer, reasoning: str, passes: Sequence[Attention], start: float
) -> Selection:
    """Return what is kept of a reasoning.

    Args:
        sparse: How tokens are chosen.
        reasoning: The reasoning, without white space around it.
        passes: Its reader's attention; for `keep="small"` also the small model's.
        start: When the selection began, by `time.perf_counter`.

    Raises:
        ValueError: Attention that tells nothing, or tokens without any text.
    """
    length = len(reasoning)
    groups = [
        read_token_groups(length, attention.spans, attention.special, attention.weights[0])
        for attention in passes
    ]
    own, kept = groups[0], _kept(sparse, reasoning, groups)
    spans = kept_spans(own, kept)
    text = kept_text(reasoning, spans).strip()
    if not text:  # white space alone tells nothing: as many visible tokens
        visible = [n for n in heaviest_first(own) if reasoning[own[n].start : own[n].end].strip()]
        kept = keep_in_order(own, count_tokens(own, kept), visible)
        spans = kept_spans(own, kept)
        text = kept_text(reasoning, spans).strip()
    if not text:
        raise ValueError("the tokens that hold the share have no text; take a larger share")
    return {
        "keep": sparse.keep,
        "layer": passes[0].layers[0],
        "share": sparse.share,
        "reached": share_held(own, kept),
        "kept_tokens": count_tokens(own, kept),
        "reasoning_tokens": count_tokens(own, range(len(own))),
        "reasoning": reasoning,
        "spans": [[first, last] for first, last in spans],
        "text": text,
        "input_tokens": sum(attention.input_tokens for attention in passes),
        "cached_tokens": sum(attention.cached_tokens for attention in passes),
        "seconds": time.perf_counter() - start,
    }


def _kept(sparse: SparseTransfer, reasoning: str, groups: Sequence[list[TokenGroup]]) -> list[int]:
    """Return the numbers of the kept groups; other ways keep as many tokens as attention."""
    own = groups[0]
    kept = smallest_set(own, sparse.share)
    budget = count_tokens(own, kept)
    if sparse.keep == "attention":
        return kept
    if sparse.keep == "sentences":
        return keep_sentences(own, budget, reasoning)
    order = list(range(len(own)))
    if sparse.keep == "last":
        order.reverse()
    elif sparse.keep == "random":
        Random(reasoning).shuffle(order)
    else:
        order = heaviest_first(reweighted(own, groups[1]))
    return keep_in_order(own, budget, order)
