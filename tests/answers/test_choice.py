"""Reading the letter of a choice."""

import pytest

from langgraph_mai.answers import parse

CARS = ["red car", "blue car", "green truck", "no vehicle"]


@pytest.mark.parametrize(
    "output",
    [
        "B",
        "b",
        "(B)",
        "B)",
        "[B]",
        "**B**",
        "`B`",
        "“B”",
        "\uff22",  # full-width
        "B. blue car",
        "(b) blue car",
        "B: blue car",
        "**B**: blue car",
        "Option B",
        "选项B",
        "B B B",
        "blue car",
        "The blue car.",
        "It is the blue car",
        "The answer is B",
        "The answer is clearly B",
        "The answer is: (B) blue car.",
        "Answer - B",
        "### Answer\n\nB",
        "答案是B。",
        r"\boxed{B}",
        r"$\boxed{\text{B. blue car}}$",
        "<answer>B. blue car</answer>",
        '{"answer": "B"}',
        '```json\n{"reason": "blue", "answer": "B"}\n```',
        "I would go with (B).",
        "B is correct because the car is blue.",
        "The correct option is B because A is too small",
        "B, since the car is blue.",
        "Therefore, B",
        "It is not A, so it must be B.",
        "A is wrong. B is right.",
        "Step 1: it is not A.\nStep 2: it is not C.\nTherefore, B",
        "The car in the picture is blue, which is option B.",
        "Hmm, C or maybe D... I'd go with B",
        "If the answer is C then it fails. So it is B.",
        "The answer is C. Wait, the answer is B.",
        "The vehicle is a blue car, not a red car.",
        "B\n\nExplanation: A is red and C is green.",
    ],
)
def test_forms_of_one_answer(output):
    assert parse(output, "choice", CARS).value == "B"


@pytest.mark.parametrize(
    "output",
    [
        "E",
        "I",
        "C,B",
        "C or D",
        "B\nC",
        "Both B and C are possible.",
        "red car or blue car",
        "B. red car",
        "The answer is B. red car",
        "Not the blue car",
        "B is not correct.",
        "Possibly B",
        "Option B looks tempting.",
        "Let me look at option B",
        "The options are A, B, C and D.",
        "A. red car\nB. blue car\nC. green truck\nD. no vehicle",
        "A) red car B) blue car C) green truck D) no vehicle",
        "None of the above",
        "I see a car",
        "The answer is B. Wait, no. It is C.",
        "The answer is calm.",
    ],
)
def test_no_option_or_two(output):
    assert parse(output, "choice", CARS).value is None


@pytest.mark.parametrize(
    ("output", "choices", "letter"),
    [
        ("It is a hot dog.", ["dog", "hot dog", "cat"], "B"),
        ("3 meters", ["1 m", "3 m", "8 m"], "B"),
        ("two", ["1", "2", "3"], "B"),
        ("There are 2 dogs", ["1", "2", "3"], "B"),
        ("No, it is dry", ["Yes", "No"], "B"),
        ("Vitamin C", ["Vitamin A", "Vitamin C"], "B"),
        ("Cannot be determined", ["It is wet", "Cannot be determined"], "B"),
        ("May", ["March", "May"], "B"),
        ("cat", ["cat", "Cat", "dog"], None),
        ("B", ["B", "A"], None),
    ],
)
def test_option_texts(output, choices, letter):
    assert parse(output, "choice", choices).value == letter


def test_options_listed_in_the_question_count():
    question = "Which one is it?\nA. a cat\nB. a dog"
    assert parse("A dog.", "choice", question=question).value == "B"
    assert parse("C", "choice", question=question).value is None


def test_without_options_only_letters_count():
    assert parse("The answer is (C).", "choice").value == "C"
    assert parse("a dog", "choice").value is None


@pytest.mark.parametrize("choices", [["A", "B", "C"], ["B", "A"], ["blue", "red", "green"], CARS])
@pytest.mark.parametrize("form", ["{} and {}", "{} or {}", "Both {} and {}", "{} & {}", "{}/{}"])
@pytest.mark.parametrize("letters", ["AB", "BA", "AC", "CA", "BC"])
def test_two_letters_are_no_choice(choices, form, letters):
    assert parse(form.format(*letters), "choice", choices).value is None


@pytest.mark.parametrize("turn", ["No wait,", "Actually,", "Wait, it is", "Correction:", "I mean"])
@pytest.mark.parametrize(("first", "last"), [("A", "B"), ("B", "A"), ("C", "D")])
def test_a_correction_after_a_full_stop_counts(first, last, turn):
    assert parse(f"{first}. {turn} {last}", "choice", CARS).value == last
    assert parse(f"Answer: {first}. {turn} {last}", "choice", CARS).value is None
