"""Where a reasoning is cut: after a loop's first pass, or from its front until it fits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.nodes.reasoning import (
    TRIES,
    Reasoning,
    Shortening,
    TooLong,
    cut_reasoning,
    without_front,
)

SENTENCE = "I look at the row again, and again it holds three dots. "
passes = st.text(alphabet="abc ,.\n1", min_size=1, max_size=60).filter(lambda unit: unit.strip())


@pytest.mark.parametrize("finish_reason", ["stop", "length", None])
def test_a_loop_is_cut_after_its_first_pass(finish_reason):
    text, cut = cut_reasoning(f"First I count. {SENTENCE * 7}I look at the", finish_reason)
    assert cut == "loop"
    assert text.startswith("First I count.")
    assert text.count("holds three dots") == 1


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Answer: 3",
        "Answer: 3\nAnswer: 3\nAnswer: 3",
        "row 1 - - - - = 0\nrow 2 - - - - = 0\nrow 3 - yes - - = 1\nrow 4 - - - - = 1\nAnswer: 1",
        SENTENCE * 2 + "Answer: 3",
        "I see 3 dots, " + "no, " * 5 + "four.",
        " ".join(f"Step {number}: nothing here." for number in range(3000)),
    ],
)
def test_what_is_no_loop_stays_as_it_is(text, finish_reason):
    cut = "length" if finish_reason == "length" else None
    assert cut_reasoning(text, finish_reason) == Reasoning(text, cut)


@given(
    start=st.text(max_size=200),
    unit=passes,
    times=st.integers(3, 20),
    rest=st.integers(0, 59),
)
def test_any_loop_is_found_and_cut_once(start, unit, times, rest):
    times = max(times, -(-100 // len(unit)))
    text = start + unit * times + unit[: rest % len(unit)]
    cut = cut_reasoning(text, "length")
    assert cut.cut == "loop"
    assert text.startswith(cut.text)
    assert len(cut.text) <= len(start) + len(unit)
    # What is left no longer repeats.
    assert cut_reasoning(cut.text, "stop").cut is None or start


@given(text=st.text(max_size=79), finish_reason=st.sampled_from(["stop", "length", None]))
def test_short_texts_are_never_cut(text, finish_reason):
    assert cut_reasoning(text, finish_reason).text == text


# From its front

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
        ("第一行。第二行很长很长", 8, "第二行很长很长"),
    ],
)
def test_the_cut_is_at_a_beginning(text, kept, left):
    assert without_front(text, kept) == left


@pytest.mark.parametrize(
    "character", ["e\u0301", "\U0001f469\u200d\U0001f52c", "\U0001f44d\U0001f3fd", "\u2764\ufe0f"]
)
def test_no_character_is_cut_apart(character):
    for extra in range(6):
        left = without_front(character * 40, 60 + extra)
        assert left
        assert left == character * (len(left) // len(character))


def shortened(tokens_of, limit, *, others, answer, exact=True):
    """Shorten until the context has capacity; returns the text, how often, and whether it has."""
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
    reasoning, refused = Shortening("\n".join(LINES)), TooLong(None, None, 5)
    assert [reasoning.shorten(refused) for _ in range(TRIES + 1)] == [True] * TRIES + [False]
    assert reasoning.text
    short = Shortening("Too long.")
    while short.shorten(TooLong(100, 500 + len(short.text), 5)):
        assert short.text
    assert short.text in "Too long."
    assert not short.shorten(None)  # another failure changes nothing
