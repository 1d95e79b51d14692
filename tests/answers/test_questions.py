"""Telling the type of an answer, and the options, from the question."""

import pytest

from langgraph_mai.answers import infer_answer_type, split_choices


@pytest.mark.parametrize(
    ("question", "answer_type"),
    [
        ("Is there a dog in the image?", "yes_no"),
        ("Is there a dog? Answer the question using a single word or phrase.", "yes_no"),
        ("Look at the picture. Is it raining?", "yes_no"),
        ("Can you see a dog?", "yes_no"),
        ("Are there more red than blue circles?", "yes_no"),
        ("Please answer yes or no: the dog is here.", "yes_no"),
        ("图中有狗吗?", "yes_no"),
        ("Is the car red or blue?", "short_text"),
        ("What is the color of the car?", "short_text"),
        ("What is the difference between these pictures?", "short_text"),
        ("", "short_text"),
        ("How many red circles are there?", "number"),
        ("Could you tell me how many dogs are here?", "number"),
        ("What percentage of people are happy?", "number"),
        ("What's the total value?", "number"),
        ("Add the values of the two bars.", "number"),
        ("Which category has the highest percentage?", "short_text"),
        ("In which year was it highest?", "number"),
        ("List the countries.", "list"),
        ("Name the two largest.", "list"),
        ("Which two countries have the highest values?", "list"),
        ("Describe the image.", "free_text"),
        ("Can you describe this image?", "free_text"),
        ("Why is he sad?", "free_text"),
        ("Which one?\nA. cat\nB. dog", "choice"),
    ],
)
def test_inferred_types(question, answer_type):
    assert infer_answer_type(question) == answer_type


def test_given_choices_make_a_choice():
    assert infer_answer_type("Is there a dog?", ["Yes", "No"]) == "choice"


@pytest.mark.parametrize(
    ("question", "stem", "choices"),
    [
        (
            "How far?\n\nA. 1 m\nB. 3 m\nC. 8 m\nPlease answer with only the letter of the option.",
            "How far?",
            ("1 m", "3 m", "8 m"),
        ),
        ("Which?\nOptions:\nA) x\n\nB) y\n", "Which?", ("x", "y")),
        ("Which?\n(a) x\n(b) y\nSee the figure.", "Which?\nSee the figure.", ("x", "y")),
        ("Which? (A) cat (B) dog", "Which?", ("cat", "dog")),
        ("Which? A. cat B. dog, C. J. Smith", "Which?", ("cat", "dog", "J. Smith")),
        ("What did A. Smith say to B. Jones?", "What did A. Smith say to B. Jones?", ()),
        ("Vitamin A. or B. is best?", "Vitamin A. or B. is best?", ()),
        ("Which one?\nA. cat", "Which one?\nA. cat", ()),
        ("Is it?", "Is it?", ()),
        ("Which? (A) cat (B) dog\nAnswer with the letter of the option.", "Which?", ("cat", "dog")),
    ],
)
def test_split_choices(question, stem, choices):
    assert split_choices(question) == (stem, choices)


@pytest.mark.parametrize(
    "question",
    [
        "In the figure, {} and {} show curves. Which is steeper?",
        "Which is larger, {} or {}?",
        "Images: {} and {}. Which is darker?",
        "Images: {} a cat, {} a dog. Which is darker?",
        "Images: {} a cat {} a dog\nWhich is darker?",
        "Which of these: {}, {} is correct?",
        "Which circle is bigger, {} left or {} right?",
        "He said: {} {} Smith?",
    ],
)
@pytest.mark.parametrize("form", ["({})", "{}:", "{}.", "{})"])
@pytest.mark.parametrize("letters", ["AB", "ab"])
def test_letters_within_a_question_are_no_options(question, form, letters):
    asked = question.format(*map(form.format, letters))
    assert split_choices(asked) == (asked, ())


THINGS = "phone plate license flight serial room invoice page house bus route account order gate"


@pytest.mark.parametrize(
    ("answer_type", "questions"),
    [
        (
            "short_text",
            [
                *(f"What is the {thing} number?" for thing in THINGS.split()),
                "What is the number on the shirt?",
                "What number is on the door?",
                "What is the number of the bus?",
                "What version is shown?",
                "Which page is open?",
                "What's the zip code?",
                "电话号码是多少?",
            ],
        ),
        (
            "number",
            [
                "What is the number of dogs?",
                "What is the total number of rooms?",
                "How many phone numbers are listed?",
                "What is the average value on page 3?",
                "What number does the red bar show?",
                "What is the number on the scale?",
            ],
        ),
    ],
)
def test_what_goes_by_a_number_is_a_text_and_what_has_a_size_a_number(answer_type, questions):
    assert {infer_answer_type(question) for question in questions} == {answer_type}


def test_option_texts_that_look_missing_are_options():
    """open-compass/VLMEvalKit#1559."""
    assert infer_answer_type("How many cats?", ["None", "Two"]) == "choice"
