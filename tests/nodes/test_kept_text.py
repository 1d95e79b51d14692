"""The text of kept pieces: verbatim, in order, and no two words become one."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.nodes.sparse_transfer import kept_spans, kept_text, read_token_groups

TEXTS = st.text(st.sampled_from("ab 12.-\n\té中🙂\u00a0"), min_size=1, max_size=40)


@st.composite
def kept(draw):
    """A text, its pieces (cut anywhere, some characters of no token), and which are kept."""
    text = draw(TEXTS)
    cuts = draw(st.sets(st.integers(1, len(text)), max_size=12))
    edges = sorted({0, len(text)} | cuts)
    spans = [(min(start + draw(st.integers(0, 1)), end), end) for start, end in pairwise(edges)]
    pieces = read_token_groups(len(text), spans, [False] * len(spans), [1] * len(spans))
    numbers = draw(st.sets(st.integers(0, len(pieces) - 1))) if pieces else set()
    return text, pieces, sorted(numbers)


@given(kept())
def test_kept_pieces_are_there_in_order_verbatim(case):
    text, pieces, numbers = case
    spans = kept_spans(pieces, numbers)
    made = kept_text(text, spans)
    place = 0
    for start, end in spans:
        place = made.index(text[start:end], place) + end - start
    added = len(made) - sum(end - start for start, end in spans)
    assert 0 <= added <= max(0, len(spans) - 1)
    assert made.replace(" ", "") == "".join(text[a:b] for a, b in spans).replace(" ", "")


@given(kept())
def test_spans_are_apart_and_hold_just_the_kept_pieces(case):
    _, pieces, numbers = case
    spans = kept_spans(pieces, numbers)
    covered = [place for start, end in spans for place in range(start, end)]
    wanted = [place for n in numbers for place in range(pieces[n].start, pieces[n].end)]
    assert covered == wanted
    assert all(first[1] < second[0] for first, second in pairwise(spans))


@given(kept())
def test_all_pieces_make_the_text_itself(case):
    text, pieces, _ = case
    assert kept_text(text, kept_spans(pieces, range(len(pieces)))) == text


@given(kept())
def test_words_that_were_apart_stay_apart(case):
    text, pieces, numbers = case
    spans = kept_spans(pieces, numbers)
    # Every word of what is made is a part of one word of the text.
    words = set(re.findall(r"\S+", text))
    for word in re.findall(r"\S+", kept_text(text, spans)):
        assert any(word in whole for whole in words)


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("row 1", "row 1"),
        ("row circle", "row circle"),
        ("1 2", "1 2"),
        ("row 2", "row 2"),
    ],
)
def test_what_was_left_out_between_leaves_one_space(words, made):
    text = "row 1 - circle\nrow 2 - star"
    spans = [(found.start(), found.end()) for found in re.finditer(r"\w+", text)]
    wanted = words.split()
    chosen = []
    for start, end in spans:
        if wanted and text[start:end] == wanted[0]:
            chosen.append((start, end))
            wanted.pop(0)
    assert kept_text(text, chosen) == made


def test_white_space_at_a_seam_is_enough():
    text = "one two three four"
    assert kept_text(text, [(0, 4), (8, 13)]) == "one three"
    assert kept_text(text, [(0, 3), (7, 13)]) == "one three"
    assert kept_text("a\nb\nc", [(0, 2), (4, 5)]) == "a\nc"


def test_parts_of_a_word_that_lay_apart_are_not_joined():
    assert kept_text("nonsense", [(0, 3), (6, 8)]) == "non se"


def test_nothing_kept_is_no_text():
    assert kept_text("text", []) == ""
    assert kept_spans([], []) == []
