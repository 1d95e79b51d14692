"""The smallest set of tokens that holds a share of the attention, other sets, and their text."""

import math
import re
from fractions import Fraction
from itertools import combinations, pairwise
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
    kept_spans,
    kept_text,
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


def plain(spans, weights, length=None):
    """Groups of tokens of which none is special."""
    length = spans[-1][1] if length is None else length
    return read_token_groups(length, spans, [False] * len(spans), weights)


def groups_of(*weights):
    """One group a weight, of one character each."""
    return plain([(number, number + 1) for number in range(len(weights))], weights)


def held(groups, kept):
    return sum(groups[number].weight for number in kept)


@given(tokens(), SHARES, SHARES)
def test_no_smaller_set_holds_the_share_and_ties_go_to_the_earlier(given_tokens, share, other):
    groups = read_token_groups(*given_tokens)
    everything = range(len(groups))
    kept, total = smallest_set(groups, share), held(groups, everything)
    assert kept == sorted(set(kept))
    assert set(smallest_set(groups, min(share, other))) <= set(kept)
    reached = share_held(groups, kept)
    assert 1 >= reached >= share or math.isclose(reached, share)
    for out in set(everything) - set(kept):
        assert all((-groups[n].weight, n) < (-groups[out].weight, out) for n in kept)
    if share == 1 or total == 0:
        assert kept == list(everything)
        return
    wanted = Fraction(str(share)) * total
    assert held(groups, kept) >= wanted
    assert all(held(groups, fewer) < wanted for fewer in combinations(everything, len(kept) - 1))


@given(tokens())
def test_every_token_but_the_special_ones_is_in_one_group(given_tokens):
    length, spans, special, _ = given_tokens
    groups = read_token_groups(length, spans, special, [1] * len(spans))
    assert count_tokens(groups, range(len(groups))) == special.count(False)
    assert [group.weight for group in groups] == [group.tokens for group in groups]
    for (first, last), skipped in zip(spans, special, strict=True):
        holding = [group for group in groups if group.start <= first < last <= group.end]
        assert len(holding) == (not skipped and first < last)
    covered = sorted(place for group in groups for place in range(group.start, group.end))
    assert len(covered) == len(set(covered))
    if not any(special):
        assert covered == list(range(length))


@pytest.mark.parametrize(
    ("weights", "share", "kept"),
    [
        ([0.1] * 5, 0.8, [0, 1, 2, 3]),
        ([0.1] * 10, 0.3, [0, 1, 2]),
        ([1e-38] * 10, 0.7, list(range(7))),
        ([3, 1, 2, 1, 3], 0.6, [0, 4]),
        ([0, 0, 0], 0.1, [0, 1, 2]),  # nothing tells them apart
        ([0.5, 0, 0.5], 0.999999, [0, 2]),
        ([0.5, 0, 0.5], 1.0, [0, 1, 2]),
        *(
            (np.array([1, 4, 0, 2, 1], dtype=dtype), 0.75, [1, 3])
            for dtype in ("float16", "float32", "float64", "int64")
        ),
    ],
)
def test_weights_of_any_type_are_compared_exactly(weights, share, kept):
    groups = groups_of(*weights)
    assert smallest_set(groups, share) == kept
    whole = float(sum(weights)) or 1.0
    assert share_held(groups, kept) == pytest.approx(
        sum(float(weights[n]) for n in kept) / whole if any(weights) else 1
    )


def test_tokens_of_bfloat16_are_read_exactly():
    import torch

    weights = torch.tensor([0.1] * 5, dtype=torch.bfloat16)
    assert smallest_set(groups_of(*weights), 0.8) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("spans", "weights", "error"),
    [
        *(
            ([(0, 1), (1, 2), (2, 3)], [0.5, wrong, 0.5], "on 1 of its 3 tokens is no weight")
            for wrong in (math.nan, math.inf, -math.inf, -0.5)
        ),
        *(([span], [1], "is not within 4 characters") for span in [(-1, 1), (2, 1), (3, 9)]),
        ([(0, 1), (1, 2)], [1], "shorter"),
    ],
)
def test_what_cannot_be_read_is_refused(spans, weights, error):
    with pytest.raises(ValueError, match=error):
        plain(spans, weights, length=4)


def test_tokens_of_one_character_stay_together():
    # "a", the four bytes of an emoji, "b"
    groups = plain([(0, 1), *[(1, 2)] * 4, (2, 3)], [0.1, 0.1, 0.1, 0.1, 0.1, 0.3])
    assert [(group.start, group.end, group.tokens) for group in groups] == [
        (0, 1, 1),
        (1, 2, 4),
        (2, 3, 1),
    ]
    assert smallest_set(groups, 0.4) == [1]


def test_special_tokens_are_never_kept_nor_counted():
    spans = [(0, 1), (1, 5), (5, 6)]
    groups = read_token_groups(6, spans, [False, True, False], [0.1, 0.8, 0.1])
    assert [(group.start, group.end) for group in groups] == [(0, 1), (5, 6)]
    assert smallest_set(groups, 0.5) == [0]
    assert share_held(groups, [0, 1]) == 1


# The other ways


def last(groups, budget, _text=""):
    return keep_in_order(groups, budget, reversed(range(len(groups))))


def at_random(groups, budget, seed):
    order = list(range(len(groups)))
    Random(seed).shuffle(order)
    return keep_in_order(groups, budget, order)


BASELINES = {
    "last": last,
    "random": at_random,
    "heaviest": lambda groups, budget, _: keep_in_order(groups, budget, heaviest_first(groups)),
    "sentences": keep_sentences,
}


@given(tokens(most=20), SHARES, st.data())
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_keeps_as_many_tokens_and_never_more(name, given_tokens, share, data):
    length, *_ = given_tokens
    text = data.draw(st.text("ab. \n!", min_size=length, max_size=length))
    groups = read_token_groups(*given_tokens)
    everything = list(range(len(groups)))
    budget = count_tokens(groups, smallest_set(groups, share))
    kept = BASELINES[name](groups, budget, text)
    assert kept == sorted(set(kept))
    assert count_tokens(groups, kept) <= budget
    assert bool(kept) == bool(groups)
    if name != "sentences":
        spare = budget - count_tokens(groups, kept)
        assert all(groups[n].tokens > spare for n in set(everything) - set(kept))
    assert BASELINES[name](groups, count_tokens(groups, everything), "." * length) == everything


def test_last_is_the_end_and_random_the_same_for_one_text():
    assert last(groups_of(9, 1, 1, 1), 2) == [2, 3]
    groups = groups_of(*[1] * 30)
    assert at_random(groups, 5, "one") == at_random(groups, 5, "one")
    seen = {tuple(at_random(groups, 5, seed)) for seed in "abcdefgh"}
    assert len(seen) == 8
    assert all(len(kept) == 5 for kept in seen)


SENTENCES = "One two. Three four!\nFive six seven"


@pytest.mark.parametrize(
    ("text", "weights", "budget", "kept"),
    [
        (SENTENCES, [1, 1, 5, 1, 2, 2, 2], 2, [2, 3]),
        (SENTENCES, [1, 1, 5, 1, 2, 2, 2], 5, [2, 3, 4, 5, 6]),
        (SENTENCES, [1, 1, 5, 1, 2, 2, 2], 6, [2, 3, 4, 5, 6]),
        # One that does not fit leaves its capacity to the next one.
        (SENTENCES, [1, 1, 2, 2, 9, 9, 9], 2, [2, 3]),
        # Where none fits, the heaviest tokens of the best one are kept.
        (SENTENCES, [1, 2, 4, 1, 9, 0, 0], 1, [4]),
        ("a b c d", [1, 3, 1, 2], 2, [1, 3]),
    ],
)
def test_whole_sentences_with_the_most_attention_per_token(text, weights, budget, kept):
    spans = [found.span() for found in re.finditer(r"\s*\S+", text)]
    assert keep_sentences(plain(spans, weights), budget, text) == kept


def test_white_space_behind_a_full_stop_is_no_sentence():
    text = "四つ。\r\n\tAnswer: 4"
    groups = groups_of(*(9 if character.isspace() else 1 for character in text))
    for budget in range(1, len(text) + 1):
        kept = keep_sentences(groups, budget, text)
        assert len(kept) <= budget
        assert budget < 6 or "".join(text[groups[number].start] for number in kept).strip()


@given(tokens())
def test_ones_own_weights_mapped_by_characters_are_the_same(given_tokens):
    groups = [group for group in read_token_groups(*given_tokens) if group.start < group.end]
    mapped = reweighted(groups, groups)
    total, mapped_total = held(groups, range(len(groups))), held(mapped, range(len(mapped)))
    for group, again in zip(groups, mapped, strict=True):
        assert group.weight * mapped_total == again.weight * total


def test_weights_of_another_tokenizer_are_spread_over_its_characters():
    own, others = plain([(0, 2), (2, 6)], [1, 1]), plain([(0, 4), (4, 6)], [0.5, 0.25])
    first, second = reweighted(own, others)
    assert Fraction(first.weight, first.weight + second.weight) == Fraction(1, 3)
    assert (first.start, first.end, second.end) == (0, 2, 6)


# The text of what is kept


@st.composite
def kept_groups(draw):
    """A text, its groups (cut anywhere, some characters of no token), and which are kept."""
    text = draw(st.text(st.sampled_from("ab 12.-\n\té中🙂\u00a0"), min_size=1, max_size=40))
    cuts = draw(st.sets(st.integers(1, len(text)), max_size=12))
    edges = sorted({0, len(text)} | cuts)
    spans = [(min(start + draw(st.integers(0, 1)), end), end) for start, end in pairwise(edges)]
    groups = plain(spans, [1] * len(spans), len(text))
    numbers = draw(st.sets(st.integers(0, len(groups) - 1))) if groups else set()
    return text, groups, sorted(numbers)


@given(kept_groups())
def test_kept_text_is_verbatim_in_order_and_joins_no_words(case):
    text, groups, numbers = case
    assert kept_text(text, kept_spans(groups, range(len(groups)))) == text
    spans = kept_spans(groups, numbers)
    covered = [place for start, end in spans for place in range(start, end)]
    assert covered == [at for n in numbers for at in range(groups[n].start, groups[n].end)]
    assert all(first[1] < second[0] for first, second in pairwise(spans))
    made, place = kept_text(text, spans), 0
    for start, end in spans:
        place = made.index(text[start:end], place) + end - start
    assert 0 <= len(made) - len(covered) <= max(0, len(spans) - 1)
    assert made.replace(" ", "") == "".join(text[a:b] for a, b in spans).replace(" ", "")
    # Every word of what is made is a part of one word of the text.
    words = set(re.findall(r"\S+", text))
    assert all(any(word in whole for whole in words) for word in re.findall(r"\S+", made))


@pytest.mark.parametrize(
    ("text", "spans", "made"),
    [
        ("row 1 - circle\nrow 2 - star", [(0, 3), (8, 14)], "row circle"),
        ("row 1 - circle\nrow 2 - star", [(4, 5), (19, 20)], "1 2"),
        ("row 1 - circle\nrow 2 - star", [(0, 3), (19, 20)], "row 2"),
        ("one two three four", [(0, 4), (8, 13)], "one three"),
        ("one two three four", [(0, 3), (7, 13)], "one three"),
        ("a\nb\nc", [(0, 2), (4, 5)], "a\nc"),
        ("nonsense", [(0, 3), (6, 8)], "non se"),
        ("text", [], ""),
    ],
)
def test_what_was_left_out_between_leaves_one_space(text, spans, made):
    assert kept_text(text, spans) == made
