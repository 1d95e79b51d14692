import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.nodes.reasoning import TRIES, Shortening, TooLong, without_front

LINES = [f"Row {number} holds {number % 7} dots." for number in range(400)]


@given(text=st.text(max_size=300), kept=st.integers(-5, 400))
def test_what_is_left_is_the_end_and_no_longer_than_asked(text, kept):
    left = without_front(text, kept)
    assert left == "" or text.rstrip().endswith(left.rstrip()) or text == left
    assert len(left) <= max(kept, 0)


@pytest.mark.parametrize(
    ("text", "kept", "left"),
    [
        ("First line here.\nSecond line here.", 20, "Second line here."),
        ("First line here.\nSecond line here.", 17, "Second line here."),
        ("It has one dot. It has two dots there.", 24, "It has two dots there."),
        ("one two three four five six seven eight", 30, "four five six seven eight"),
        ("no cut", 6, "no cut"),
        ("no cut", 600, "no cut"),
        ("gone", 0, ""),
        ("\u7b2c\u4e00\u884c\u3002\u7b2c\u4e8c\u884c\u5f88\u957f\u5f88\u957f", 8, None),
    ],
)
def test_the_cut_is_at_a_beginning(text, kept, left):
    if left is None:
        left = text[4:]
    assert without_front(text, kept) == left


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301",
        "\U0001f469\u200d\U0001f52c",
        "\U0001f44d\U0001f3fd",
        "\u2764\ufe0f",
        "a\u0308\u0304",
    ],
)
@pytest.mark.parametrize("extra", range(6))
def test_no_character_is_cut_apart(character, extra):
    left = without_front(character * 40, 60 + extra)
    assert left
    assert left == character * (len(left) // len(character))


def shortened(tokens_of, limit, *, others, answer, exact=True):
    """Shorten until the context has room; returns the text, how often, and whether it has."""
    reasoning, tries = Shortening("\n".join(LINES)), 0
    while (length := others + tokens_of(reasoning.text)) + 1 > limit:
        known = TooLong(limit, length, answer) if exact else TooLong(None, None, answer)
        if not reasoning.shorten(known):
            return reasoning.text, tries, False
        tries += 1
    return reasoning.text, tries, True


@given(
    each=st.floats(1, 8),
    limit=st.integers(600, 4000),
    others=st.integers(0, 400),
    answer=st.integers(1, 64),
)
def test_little_more_goes_than_has_to(each, limit, others, answer):
    def tokens_of(text):
        return math.ceil(len(text) / each)

    whole = tokens_of("\n".join(LINES))
    text, tries, fits = shortened(tokens_of, limit, others=others, answer=answer)
    assert fits
    assert tries <= TRIES
    if whole + others + 1 > limit:
        assert text.startswith("Row ")
        # No more than a few percent of the whole is lost beside what had to go.
        lost = limit - answer - others - tokens_of(text)
        assert lost <= max(0.1 * whole, 0.1 * limit)


@given(limit=st.integers(300, 4000))
def test_by_halves_where_nothing_is_known(limit):
    text, tries, fits = shortened(len, limit, others=50, answer=5, exact=False)
    assert fits == (tries <= TRIES)
    assert "\n".join(LINES).endswith(text)


def test_it_is_given_up_at_last():
    reasoning = Shortening("\n".join(LINES))
    refused = TooLong(None, None, 5)
    assert [reasoning.shorten(refused) for _ in range(TRIES + 1)] == [True] * TRIES + [False]
    assert reasoning.text


def test_nothing_is_left_to_read():
    reasoning = Shortening("Too long.")
    while reasoning.shorten(TooLong(100, 500 + len(reasoning.text), 5)):
        assert reasoning.text
    assert reasoning.text in "Too long."


def test_other_failures_change_nothing():
    reasoning = Shortening("It is red.")
    assert not reasoning.shorten(None)
    assert reasoning.text == "It is red."
