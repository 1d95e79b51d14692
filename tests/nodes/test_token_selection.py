"""The smallest set of tokens that holds a share of the attention, and other sets of that size."""

import math
from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.nodes.sparse_transfer import (
    count_tokens,
    heaviest_first,
    keep_in_order,
    keep_sentences,
    read_token_groups,
    reweighted,
    share_held,
    smallest_set,
)

# As a tokenizer's: several words to a few characters each, some special, some that share a
# character with the one before (parts of an emoji), some without any characters.
KINDS = st.sampled_from(["plain", "plain", "plain", "special", "shared", "empty"])
WEIGHTS = st.one_of(
    st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.1, 0.2]),
    st.floats(0, 1, width=32),
    st.floats(0, 2.0**-120, width=32),
)
SHARES = st.one_of(
    st.sampled_from([0.1, 0.2, 0.5, 0.8, 0.9, 1.0]),
    st.floats(0, 1, exclude_min=True, allow_subnormal=False),
)


@st.composite
def tokens(draw, most=8):
    """Characters, spans, special flags and weights of a reasoning."""
    spans, special, end = [], [], draw(st.integers(0, 2))
    for kind in draw(st.lists(KINDS, min_size=1, max_size=most)):
        if kind == "shared" and spans and not special[-1] and spans[-1][0] < spans[-1][1]:
            spans.append(spans[-1])
        elif kind == "empty":
            spans.append((end, end))
        else:
            start = end + draw(st.integers(0, 1))
            end = start + draw(st.integers(1, 3))
            spans.append((start, end))
        special.append(kind == "special")
    weights = draw(st.lists(WEIGHTS, min_size=len(spans), max_size=len(spans)))
    return end + draw(st.integers(0, 2)), spans, special, weights


def pieces_of(*weights):
    """One piece a weight, of one character each."""
    spans = [(number, number + 1) for number in range(len(weights))]
    return read_token_groups(len(weights), spans, [False] * len(weights), weights)


def held(pieces, kept):
    return sum(pieces[number].weight for number in kept)


@given(tokens(), SHARES)
def test_no_smaller_set_holds_the_share(given_tokens, share):
    pieces = read_token_groups(*given_tokens)
    kept = smallest_set(pieces, share)
    total = held(pieces, range(len(pieces)))
    if share == 1 or total == 0:
        assert kept == list(range(len(pieces)))
        return
    wanted = Fraction(str(share)) * total
    assert held(pieces, kept) >= wanted
    for smaller in combinations(range(len(pieces)), len(kept) - 1):
        assert held(pieces, smaller) < wanted
    for other in combinations(range(len(pieces)), len(kept)):
        assert held(pieces, other) <= held(pieces, kept)


@given(tokens(), SHARES)
def test_the_order_is_kept_and_ties_go_to_the_earlier(given_tokens, share):
    pieces = read_token_groups(*given_tokens)
    kept = smallest_set(pieces, share)
    assert kept == sorted(set(kept))
    for number in set(range(len(pieces))) - set(kept):
        for other in kept:
            assert pieces[other].weight >= pieces[number].weight
            if pieces[other].weight == pieces[number].weight:
                assert other < number


@given(tokens(), SHARES, SHARES)
def test_a_larger_share_keeps_the_same_and_more(given_tokens, first, second):
    pieces = read_token_groups(*given_tokens)
    small, large = sorted([first, second])
    assert set(smallest_set(pieces, small)) <= set(smallest_set(pieces, large))


@given(tokens(), SHARES)
def test_the_share_reached_is_at_least_the_one_asked_for(given_tokens, share):
    pieces = read_token_groups(*given_tokens)
    reached = share_held(pieces, smallest_set(pieces, share))
    assert reached >= share or math.isclose(reached, share)
    assert reached <= 1


@given(tokens())
def test_every_token_but_the_special_ones_is_in_one_piece(given_tokens):
    length, spans, special, _ = given_tokens
    pieces = read_token_groups(length, spans, special, [1] * len(spans))
    assert count_tokens(pieces, range(len(pieces))) == special.count(False)
    assert [piece.weight for piece in pieces] == [piece.tokens for piece in pieces]
    for (first, last), skipped in zip(spans, special, strict=True):
        holding = [piece for piece in pieces if piece.start <= first < last <= piece.end]
        assert len(holding) == (not skipped and first < last)


@given(tokens())
def test_pieces_leave_out_only_the_characters_of_special_tokens(given_tokens):
    length, spans, special, weights = given_tokens
    pieces = read_token_groups(length, spans, special, weights)
    covered = sorted(place for piece in pieces for place in range(piece.start, piece.end))
    assert len(covered) == len(set(covered))
    if not any(special):
        assert covered == list(range(length))


def test_equal_weights_are_compared_exactly():
    assert smallest_set(pieces_of(*[0.1] * 5), 0.8) == [0, 1, 2, 3]
    assert smallest_set(pieces_of(*[0.1] * 10), 0.3) == [0, 1, 2]
    assert smallest_set(pieces_of(*[1e-38] * 10), 0.7) == list(range(7))
    assert smallest_set(pieces_of(3, 1, 2, 1, 3), 0.6) == [0, 4]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_weights_may_be_of_any_type(dtype):
    weights = np.array([1, 4, 0, 2, 1], dtype=dtype)
    pieces = pieces_of(*weights)
    assert smallest_set(pieces, 0.75) == [1, 3]
    assert share_held(pieces, [1, 3]) == 0.75


def test_tokens_of_bfloat16_are_read_exactly():
    import torch

    weights = torch.tensor([0.1, 0.1, 0.1, 0.1, 0.1], dtype=torch.bfloat16)
    assert smallest_set(pieces_of(*weights), 0.8) == [0, 1, 2, 3]


def test_without_any_weight_all_are_kept():
    pieces = pieces_of(0, 0, 0)
    assert smallest_set(pieces, 0.1) == [0, 1, 2]
    assert share_held(pieces, [0, 1, 2]) == 1


def test_what_weighs_nothing_is_kept_by_the_whole_share_only():
    pieces = pieces_of(0.5, 0, 0.5)
    assert smallest_set(pieces, 0.999999) == [0, 2]
    assert smallest_set(pieces, 1.0) == [0, 1, 2]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -0.5])
def test_what_is_no_weight_is_refused(wrong):
    with pytest.raises(ValueError, match="the attention on 1 of its 3 tokens is no weight"):
        pieces_of(0.5, wrong, 0.5)


@pytest.mark.parametrize("span", [(-1, 1), (2, 1), (3, 9)])
def test_tokens_outside_of_the_text_are_refused(span):
    with pytest.raises(ValueError, match="is not within 4 characters"):
        read_token_groups(4, [span], [False], [1])


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        read_token_groups(2, [(0, 1), (1, 2)], [False, False], [1])


def test_tokens_of_one_character_stay_together():
    # "a", the four bytes of an emoji, "b"
    spans = [(0, 1), (1, 2), (1, 2), (1, 2), (1, 2), (2, 3)]
    pieces = read_token_groups(3, spans, [False] * 6, [0.1, 0.1, 0.1, 0.1, 0.1, 0.3])
    assert [(piece.start, piece.end, piece.tokens) for piece in pieces] == [
        (0, 1, 1),
        (1, 2, 4),
        (2, 3, 1),
    ]
    assert smallest_set(pieces, 0.4) == [1]


def test_special_tokens_are_never_kept_nor_counted():
    spans = [(0, 1), (1, 5), (5, 6)]
    pieces = read_token_groups(6, spans, [False, True, False], [0.1, 0.8, 0.1])
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 1), (5, 6)]
    assert smallest_set(pieces, 0.5) == [0]
    assert share_held(pieces, [0, 1]) == 1


# The other ways


def last(pieces, budget):
    return keep_in_order(pieces, budget, reversed(range(len(pieces))))


def at_random(pieces, budget, seed):
    order = list(range(len(pieces)))
    Random(seed).shuffle(order)
    return keep_in_order(pieces, budget, order)


BASELINES = {
    "last": lambda pieces, budget, _: last(pieces, budget),
    "random": at_random,
    "heaviest": lambda pieces, budget, _: keep_in_order(pieces, budget, heaviest_first(pieces)),
    "sentences": keep_sentences,
}


@given(tokens(most=20), SHARES, st.data())
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_keeps_as_many_tokens_and_never_more(name, given_tokens, share, data):
    length, *_ = given_tokens
    text = data.draw(st.text("ab. \n!", min_size=length, max_size=length))
    pieces = read_token_groups(*given_tokens)
    budget = count_tokens(pieces, smallest_set(pieces, share))
    kept = BASELINES[name](pieces, budget, text)
    assert kept == sorted(set(kept))
    assert count_tokens(pieces, kept) <= budget
    assert bool(kept) == bool(pieces)
    if name != "sentences":
        spare = budget - count_tokens(pieces, kept)
        assert all(pieces[n].tokens > spare for n in set(range(len(pieces))) - set(kept))


@given(tokens(most=20))
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_with_room_for_all_keeps_all(name, given_tokens):
    pieces = read_token_groups(*given_tokens)
    everything = list(range(len(pieces)))
    budget = count_tokens(pieces, everything)
    assert BASELINES[name](pieces, budget, "." * given_tokens[0]) == everything


def test_last_is_the_end():
    assert last(pieces_of(9, 1, 1, 1), 2) == [2, 3]


def test_random_is_always_the_same_for_one_text_and_not_for_all():
    pieces = pieces_of(*[1] * 30)
    assert at_random(pieces, 5, "one") == at_random(pieces, 5, "one")
    seen = {tuple(at_random(pieces, 5, seed)) for seed in "abcdefgh"}
    assert len(seen) == 8
    assert all(len(kept) == 5 for kept in seen)


SENTENCES = "One two. Three four!\nFive six seven"


def words(text, weights):
    """A piece a word, the white space before it included."""
    import re

    spans = [found.span() for found in re.finditer(r"\s*\S+", text)]
    return read_token_groups(len(text), spans, [False] * len(spans), weights)


def test_whole_sentences_with_the_most_attention_a_token():
    pieces = words(SENTENCES, [1, 1, 5, 1, 2, 2, 2])
    assert keep_sentences(pieces, 2, SENTENCES) == [2, 3]
    assert keep_sentences(pieces, 5, SENTENCES) == [2, 3, 4, 5, 6]
    assert keep_sentences(pieces, 6, SENTENCES) == [2, 3, 4, 5, 6]


def test_a_sentence_that_does_not_fit_leaves_its_room_to_the_next():
    pieces = words(SENTENCES, [1, 1, 2, 2, 9, 9, 9])
    assert keep_sentences(pieces, 2, SENTENCES) == [2, 3]


def test_where_no_sentence_fits_the_best_ones_heaviest_tokens_are_kept():
    pieces = words(SENTENCES, [1, 2, 4, 1, 9, 0, 0])
    assert keep_sentences(pieces, 1, SENTENCES) == [4]
    assert keep_sentences(words("a b c d", [1, 3, 1, 2]), 2, "a b c d") == [1, 3]


@given(tokens())
def test_ones_own_weights_mapped_by_characters_are_the_same(given_tokens):
    pieces = [piece for piece in read_token_groups(*given_tokens) if piece.start < piece.end]
    total = held(pieces, range(len(pieces)))
    mapped = reweighted(pieces, pieces)
    mapped_total = held(mapped, range(len(mapped)))
    for piece, again in zip(pieces, mapped, strict=True):
        assert piece.weight * mapped_total == again.weight * total


def test_weights_of_another_tokenizer_are_spread_over_its_characters():
    own = read_token_groups(6, [(0, 2), (2, 6)], [False, False], [1, 1])
    others = read_token_groups(6, [(0, 4), (4, 6)], [False, False], [0.5, 0.25])
    first, second = reweighted(own, others)
    assert Fraction(first.weight, first.weight + second.weight) == Fraction(1, 3)
    assert (first.start, first.end, second.end) == (0, 2, 6)


def test_white_space_behind_a_full_stop_is_no_sentence():
    text = "四つ。\r\n\tAnswer: 4"
    pieces = read_token_groups(
        len(text),
        [(i, i + 1) for i in range(len(text))],
        [False] * len(text),
        [9 if character.isspace() else 1 for character in text],
    )
    for budget in range(1, len(text) + 1):
        kept = keep_sentences(pieces, budget, text)
        whole = [text[pieces[number].start] for number in kept]
        assert len(kept) <= budget
        assert budget < 6 or "".join(whole).strip()
