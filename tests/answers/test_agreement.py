"""When two answers are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.answers import Answer, agree, parse

SHARE = "What percentage of people agree?"


def verdict(answer_type, a, b, question=""):
    first, second = (parse(text, answer_type, question=question) for text in (a, b))
    assert agree(first, second) == agree(second, first)
    return agree(first, second)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1,234", "1234"),
        ("12%", "12 percent"),
        ("45%", "45"),
        ("€47", "47"),
        ("9 kg", "9"),
        ("twelve", "12"),
        ("0", "0.0"),
        ("1.2 million", "1,200,000"),
        ("12.4", "12"),
        ("45.3%", "45%"),
        ("-12.4", "-12"),
        ("0.333", "0.33"),
    ],
)
@pytest.mark.parametrize("answer_type", ["number", "short_text"])
def test_same_numbers(answer_type, a, b):
    assert verdict(answer_type, a, b) == "agree"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("100", "105"),
        ("2010", "2011"),
        ("2010", "2010.4"),
        ("0", "0.4"),
        ("2.4", "2"),
        ("12.6", "12"),
        ("-3", "3"),
        ("5 km", "5 miles"),
        ("$5", "€5"),
        ("1200000", "1234567"),
        ("0.12", "12%"),
    ],
)
@pytest.mark.parametrize("answer_type", ["number", "short_text"])
def test_different_numbers(answer_type, a, b):
    assert verdict(answer_type, a, b) == "disagree"


@pytest.mark.parametrize("answer_type", ["number", "short_text"])
def test_fraction_and_percentage_agree_where_a_share_is_asked_for(answer_type):
    assert verdict(answer_type, "0.12", "12%", SHARE) == "agree"
    assert verdict(answer_type, "0.12", "12%", "What is the rate?") == "disagree"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Japan", "JAPAN."),
        ("an apple", "apples"),
        ("apple, pear", "pear and apple"),
        ("[Japan, China]", "[China, Japan]"),
        ("18-24", "18 to 24"),
        ("25-34", "25-34 years"),
        ("9 countries", "9"),
        ("USA", "United States"),
        ("São Paulo", "Sao Paulo"),
        ("The answer is London", "London"),
        ("x = 5", "x=5"),
        ("C♯", "C#"),
        ("A & B", "A and B"),
        ("a red car", "red car"),
    ],
)
def test_same_short_texts(a, b):
    assert verdict("short_text", a, b) == "agree"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Paris", "Lyon"),
        ("ab", "ax"),
        ("Vitamin A", "Vitamin C"),
        ("C", "C++"),
        ("Route 66", "Route 67"),
        ("1990-1995", "1990-1994"),
        ("3 dogs", "3 cats"),
        ("apple, pear", "apple"),
        ("not red", "red"),
        ("5 > 3", "5 < 3"),
        ("x ≥ y", "x ≤ y"),
        ("a = b", "a ≠ b"),
        ("2 + 3", "2 - 3"),
        ("2 + 3", "2 \u00d7 3"),
        ("1 → 2", "2 → 1"),
        ("C♯", "C♭"),
        ("C", "C♯"),
        ("A+", "A-"),
        ("O", "O-"),
        ("10^6", "10 6"),
        ("Chapter 1.10", "Chapter 1.1"),
        ("A or B", "or B"),
        ("1234567890", "1234567891"),
    ],
)
def test_different_short_texts(a, b):
    assert verdict("short_text", a, b) == "disagree"


def test_lists_are_multisets():
    assert verdict("list", "red, blue, red", "red, red, blue") == "agree"
    assert verdict("list", "red, blue, red", "red, blue, blue") == "disagree"
    assert verdict("list", "1,234; 5%", "5, 1234") == "agree"


def test_free_texts_agree_by_what_they_are_about():
    a = "A man is riding a brown horse on the beach."
    assert verdict("free_text", a, "A man riding a big brown horse on the beach.") == "agree"
    assert verdict("free_text", a, "A man is riding a white horse on the beach.") == "disagree"
    assert verdict("free_text", a, "A man is not riding a brown horse on the beach.") == "disagree"
    assert verdict("free_text", a, "Two bowls of soup on a table.") == "disagree"
    assert verdict("free_text", "There are 3 dogs here.", "There are 4 dogs here.") == "disagree"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The dog chases the cat.", "The cat chases the dog."),
        ("A red ball on a blue box.", "A blue ball on a red box."),
        ("The light is on.", "The light is off."),
        ("The door is open.", "The door is closed."),
        ("The cat is on the table.", "The cat is under the table."),
        ("She holds a cup.", "He holds a cup."),
        ("A car drives up a steep hill.", "A car drives down a steep hill."),
    ],
)
def test_swapped_roles_and_opposites_are_different_free_texts(a, b):
    scene = "It is a sunny day in a town with many people, trees and houses. "
    assert verdict("free_text", a, b) == "disagree"
    assert verdict("free_text", scene + a, scene + b) == "disagree"
    assert verdict("free_text", a + " " + scene, b + " " + scene) == "disagree"


@given(
    st.lists(
        st.sampled_from(["dog", "cat", "red", "blue", "left", "near", "under", "big"]),
        min_size=2,
        unique=True,
    )
)
def test_free_texts_with_two_words_swapped_disagree(words):
    swapped = [words[-1], *words[1:-1], words[0]]
    assert verdict("free_text", " ".join(words), " ".join(swapped)) == "disagree"
    assert verdict("free_text", " ".join(words), " ".join(words)) == "agree"


def test_abstentions_and_different_kinds_are_no_verdict():
    yes = Answer("yes_no", "yes", "Yes")
    nothing = Answer("yes_no", None, "")
    assert agree(yes, nothing) == agree(nothing, yes) == agree(nothing, nothing) == "abstain"
    assert agree(yes, Answer("short_text", "yes", "yes")) == "abstain"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (Answer("yes_no", "yes", "Yes, it is."), "yes"),
        (Answer("choice", "B", "(B)"), "B"),
        (Answer("number", 1234.0, "1,234"), "1234"),
        (Answer("number", 12.5, "12.5%", "%"), "12.5%"),
        (Answer("number", -5e6, "-$5 million", "$"), "-$5000000"),
        (Answer("number", 9.0, "9 kg", "kg"), "9 kg"),
        (Answer("number", None, "hard to say"), "hard to say"),
    ],
)
def test_answers_are_shown_as_people_write_them(answer, shown):
    assert answer.shown == shown
