"""Reading short texts, lists and free texts."""

import pytest

from langgraph_mai.answers import parse


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("Japan", "japan"),
        ("“Japan”.", "japan"),
        ("The answer is Japan.", "japan"),
        ("It is Japan", "japan"),
        ("Japan. It has the highest bar.", "japan"),
        (
            "Japan\n\nThe chart shows that of all the countries Japan has the highest value.",
            "japan",
        ),
        ("The Netherlands", "netherlands"),
        ("São Paulo", "sao paulo"),
        ("Vitamin A", "vitamin a"),
        ("C++", "c++"),
        ("Answer: St. Louis", "st louis"),
        ("NO\nPARKING", "no parking"),
        ("don\u2019t smoke", "don't smoke"),
        ("18\u201324", "18 24"),
        ("18 to 24", "18 24"),
        ("three dogs", "3 dogs"),
        ("12 percent", "12%"),
        ("$1.2 million", "$1200000"),
    ],
)
def test_short_text_is_normalised(output, value):
    assert parse(output, "short_text").value == value


@pytest.mark.parametrize(
    ("output", "question", "value"),
    [
        ("The car is red.", "What color is the car?", "red"),
        ("Japan has the highest value.", "Which country has the highest value?", "japan"),
        ("the blue bar", "Which bar is the tallest?", "blue"),
        ("The dog is behind the car.", "Where is the dog, seen from the car?", "dog is behind car"),
    ],
)
def test_words_of_the_question_are_dropped_where_order_does_not_matter(output, question, value):
    assert parse(output, "short_text", question=question).value == value


@pytest.mark.parametrize(
    "output",
    ["", "   ", "...", "The answer", "Answer:", "N/A", "unknown", "I cannot tell.", "<think>Paris"],
)
def test_no_short_text(output):
    assert parse(output, "short_text").value is None


def test_short_text_is_shown_as_it_was_written():
    assert parse("**Answer:** São Paulo.", "short_text").shown == "São Paulo"


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("France, Spain", ("france", "spain")),
        ("[France, Spain]", ("france", "spain")),
        ('["France", "Spain"]', ("france", "spain")),
        ("France and Spain", ("france", "spain")),
        ("Answer: France, Spain, and Italy", ("france", "spain", "italy")),
        ("The countries are France, Spain and Italy.", ("france", "spain", "italy")),
        ("- France\n- Spain", ("france", "spain")),
        ("1. France\n2. Spain", ("france", "spain")),
        ("Answer:\n* France\n* Spain\n\nExplanation: they lead.", ("france", "spain")),
        ('{"answer": ["France", "Spain"]}', ("france", "spain")),
        ("1,234, 5", ("1234", "5")),
        ("France", ("france",)),
        ("", None),
        ("I cannot tell", None),
        ("The chart shows many countries in an order that I find rather hard to describe", None),
    ],
)
def test_lists(output, value):
    assert parse(output, "list").value == value


def test_list_is_shown_with_commas():
    assert parse("- France\n- Spain", "list").shown == "France, Spain"


def test_free_text_keeps_the_description_without_thinking():
    answer = parse("<think>hm</think>A man rides a **horse**.", "free_text")
    assert answer.shown == "A man rides a horse."
    poem = "The sign says: the answer is 42. Beside it stands a man who is not sure."
    assert parse(f"Answer: {poem}", "free_text").shown == poem
    assert parse("I'm sorry, I can't help with that.", "free_text").value is None


@pytest.mark.parametrize(
    "text", ["I think it is red.", "I believe it's red", "I see red", "I think red", "It is red."]
)
def test_how_sure_a_model_says_it_is_does_not_change_a_short_text(text):
    assert parse(text, "short_text", question="What color is it?").value == "red"
