"""Reading yes and no."""

import pytest

from langgraph_mai.answers import parse

DOG = "Is there a dog in the image?"


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("Yes", "yes"),
        ("**No**", "no"),
        ("It's a no", "no"),
        ("I would say yes", "yes"),
        ("Probably yes", "yes"),
        ("It is hard to tell, but probably no", "no"),
        ("absolutely not", "no"),
        ("That is incorrect.", "no"),
        ("So the answer is: **No**", "no"),
        ("The left bar is 5 and the right is 7, so no.", "no"),
        ("是的", "yes"),
        ("没有", "no"),
    ],
)
def test_verdict_words(output, value):
    assert parse(output, "yes_no", question=DOG).value == value


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("Yes, there is no doubt.", "yes"),
        ("Yes. No other animals are visible.", "yes"),
        ("No, there is a cat instead.", "no"),
        ("The answer is yes because there is no cat", "yes"),
        ("Yes, I see a dog; no cats.", "yes"),
    ],
)
def test_verdict_wins_over_what_is_said_of_other_things(output, value):
    assert parse(output, "yes_no", question=DOG).value == value


@pytest.mark.parametrize(
    "output",
    [
        "Yes and no",
        "yes or no",
        "No.\nYes.",
        "Yes, there isn't a dog.",
        "No, there is a dog.",
        "Maybe yes.",
        "Maybe yes, maybe no.",
        "The answer is not yes.",
        "No, it is not possible to determine from the image.",
        "The answer is no. Wait, that is wrong.",
    ],
)
def test_contradictions_and_hedges_are_no_answer(output):
    assert parse(output, "yes_no", question=DOG).value is None


def test_later_verdict_wins_as_correction_or_conclusion():
    assert parse("No... actually yes.", "yes_no", question=DOG).value == "yes"
    steps = "Is it a dog? Yes. It barks. No wait, that is a cat. So the answer is no."
    assert parse(steps, "yes_no", question=DOG).value == "no"
    assert parse("Yes, it has ears. So no.", "yes_no", question=DOG).value == "no"


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("There is a dog on the mat.", "yes"),
        ("A dog is lying on the mat.", "yes"),
        ("I do not see a cat, but there is a dog.", "yes"),
        ("There are no people, just a dog.", "yes"),
        ("There is a dog with no collar.", "yes"),
        ("I don't see one.", "no"),
        ("I'm sorry, but there is no dog in the image.", "no"),
        ("I'm sorry, I can't help with that.", None),
        ("No dogs", "no"),
        ("Neither a cat nor a dog is present.", "no"),
        ("There is a cat.", None),
        ("It could be a dog.", None),
        ("row 1 - - - = 0\nrow 2 - yes - yes = 2", None),
        ("The sign says 'No parking'.", None),
        ("Yesterday the room was empty.", None),
    ],
)
def test_statements_about_what_was_asked_for(output, value):
    assert parse(output, "yes_no", question=DOG).value == value


@pytest.mark.parametrize(
    ("output", "question", "value"),
    [
        ("There is a blue circle.", "Is there a red circle?", None),
        ("There is one dog.", "Are there two dogs in the image?", None),
        (
            "There is a blue square left of the red circle.",
            "Is there a red circle left of the blue square?",
            None,
        ),
        ("The car is red.", "Is the car red?", "yes"),
        ("The car is not red.", "Is the car red?", "no"),
        ("The car is blue.", "Is the car red?", None),
        (
            "The right bar is taller than the left bar.",
            "Is the left bar taller than the right bar?",
            None,
        ),
    ],
)
def test_statements_must_say_what_was_asked(output, question, value):
    assert parse(output, "yes_no", question=question).value == value


CAR = "Is there a red car?"


@pytest.mark.parametrize("word", ["missing", "absent"])
@pytest.mark.parametrize(
    ("output", "question", "value"),
    [
        ("There is a red car with a {} headlight.", CAR, "yes"),
        ("The red car is {} a wheel.", CAR, "yes"),
        ("The red car is {}.", CAR, "no"),
        ("A red car is {} from the image.", CAR, "no"),
        ("The red car is not {}.", CAR, None),
        ("The wheel of the red car is {}.", CAR, None),
        ("There is a {} tooth.", "Is there a {} tooth?", "yes"),
        ("There is no {} tooth.", "Is there a {} tooth?", "no"),
        ("The chair is {}.", "Is the chair {}?", "yes"),
        ("The chair is not {}.", "Is the chair {}?", "no"),
    ],
)
def test_what_is_missing_denies_only_as_a_predicate(output, question, value, word):
    output, question = output.format(word), question.format(word)
    assert parse(output, "yes_no", question=question).value == value


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("没错", "yes"),
        ("没错\uff0c有一辆红色的车", "yes"),
        ("不\uff0c没有红色的车", "no"),
        ("没看到", "no"),
        *(
            (output, None)
            for output in (
                "是不是",
                "有没有",
                "对不对",
                "是吗\uff1f",
                "不是没有",
                "不一定",
                "没问题",
            )
        ),
    ],
)
def test_chinese_words_of_two_signs(output, value):
    assert parse(output, "yes_no", question=CAR).value == value


@pytest.mark.parametrize("claim", ["It is not true", "It is false", "I do not say", "It isn't so"])
@pytest.mark.parametrize("denial", ["there is no red car", "there isn't a red car"])
def test_two_negations_are_never_no(claim, denial):
    assert parse(f"{claim} that {denial}.", "yes_no", question=CAR).value in {None, "yes"}


@pytest.mark.parametrize("asked", ["There is no red car?", "Not a red car in sight?", "No car?"])
@pytest.mark.parametrize("reply", ["Wrong, there is.", "There is one.", "No.", "Yes."])
def test_a_reply_to_a_negative_question_is_not_clear(asked, reply):
    assert parse(f"{asked} {reply}", "yes_no", question=CAR).value is None


def test_two_denials_side_by_side_are_no():
    assert parse("There are no red cars and no dogs.", "yes_no", question=CAR).value == "no"
