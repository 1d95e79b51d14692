"""Which tokens get attention: the smallest set, shares by text, what two selections share."""

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.benchmarks.attention.measured_pass import tokens_needed
from langgraph_mai.benchmarks.attention.token_figures import (
    overlap,
    selected_texts,
    text_shares,
    token_text,
    top,
)
from langgraph_mai.nodes.token_selection import Piece, smallest_set

WEIGHTS = st.lists(st.integers(0, 9), min_size=1, max_size=7)
SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.8, 0.9, 1.0])
TEXTS = st.lists(st.sampled_from("abcd"), max_size=8).map(Counter)


def words(weights):
    """A text of one-letter words, each a token, with these weights."""
    text = " ".join("abcabcabc"[number] for number in range(len(weights)))
    pieces = [
        Piece(max(0, 2 * number - 1), 2 * number + 1, 1, weight)
        for number, weight in enumerate(weights)
    ]
    return text, pieces


@given(WEIGHTS, SHARES)
def test_no_smaller_set_of_tokens_holds_the_share(weights, share):
    needed = tokens_needed(words(weights)[1], share)
    wanted = Fraction(str(share)) * sum(weights)
    if sum(weights) and share < 1:
        holding = [
            size
            for size in range(len(weights) + 1)
            if any(sum(some) >= wanted for some in combinations(weights, size))
        ]
        assert needed == max(1, holding[0])
    else:
        assert needed == len(weights)


@given(WEIGHTS)
def test_a_larger_share_needs_no_fewer_tokens(weights):
    pieces = words(weights)[1]
    needed = [tokens_needed(pieces, share) for share in (0.1, 0.5, 0.8, 1.0)]
    assert needed == sorted(needed)


@given(WEIGHTS)
def test_shares_by_text_add_up(weights):
    text, pieces = words(weights)
    shares = text_shares(text, pieces)
    assert set(shares) == set(text.split())
    assert sum(shares.values()) == pytest.approx(1.0 if sum(weights) else 0.0)
    for word, share in shares.items():
        own = sum(w for w, one in zip(weights, text.split(), strict=True) if one == word)
        assert share == pytest.approx(own / sum(weights) if sum(weights) else 0.0)


@given(TEXTS, TEXTS)
def test_the_overlap_is_that_of_multisets(first, second):
    found = overlap(first, second)
    shared = sum(min(first[one], second[one]) for one in "abcd")
    either = sum(max(first[one], second[one]) for one in "abcd")
    assert found.jaccard == (shared / either if either else 1.0)
    assert found.of_first == (shared / sum(first.values()) if first else 1.0)
    back = overlap(second, first)
    assert (back.jaccard, back.of_first) == (found.jaccard, found.of_second)
    assert 0 <= found.jaccard <= min(found.of_first, found.of_second) <= 1
    assert (found.jaccard == 1) == (first == second)


def test_selected_texts_count_repetitions():
    text, pieces = words([4, 1, 0, 4, 1, 0])  # a b c a b c
    assert selected_texts(text, pieces, smallest_set(pieces, 0.8)) == Counter(a=2)
    assert selected_texts(text, pieces, range(6)) == Counter(a=2, b=2, c=2)


def test_a_token_of_white_space_is_shown_by_its_escapes():
    assert token_text("a\n b", Piece(1, 2, 1, 0)) == "\\n"
    assert token_text("a\n b", Piece(2, 4, 1, 0)) == "b"


def test_equal_shares_are_in_the_order_of_their_texts():
    assert top({"b": 0.2, "c": 0.6, "a": 0.2}, 2) == ["c", "a"]
