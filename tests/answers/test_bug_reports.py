"""Public reports of wrong scoring, re-enacted; each test names its report."""

import pytest

from langgraph_mai.answers import agree, infer_answer_type, parse

LANES = ["Left lane", "Middle lane", "Right lane"]


@pytest.mark.parametrize(
    ("output", "value"),
    [("yes.", "yes"), ("The answer is yes", "yes"), ("Yes", "yes"), ("no.", "no")],
)
def test_full_stops_and_sentences_do_not_spoil_yes_and_no(output, value):
    """EvolvingLMMs-Lab/lmms-eval#673."""
    assert parse(output, "yes_no", question="Is there a dog in the image?").value == value


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("", None),
        ("I am unable to view images.", None),
        ("Maybe", None),
        ("There isn't a dog.", "no"),
        ("I cannot see one.", "no"),
    ],
)
def test_what_is_not_no_is_not_therefore_yes(output, value):
    """AoiDragon/POPE#19."""
    assert parse(output, "yes_no", question="Is there a dog in the image?").value == value


@pytest.mark.parametrize(
    ("output", "gold", "verdict"),
    [
        ("The net income is 1,234.", "1234", "agree"),
        ("Area A is the larger one", "24", "abstain"),
        ("24", "24.0", "agree"),
    ],
)
def test_open_numeric_answers_are_compared_as_numbers(output, gold, verdict):
    """open-compass/VLMEvalKit#110, #1617."""
    assert agree(parse(output, "number"), parse(gold, "number")) == verdict


def test_refusal_is_never_an_option():
    """MMMU-Benchmark/MMMU#72: the same abstention each time, no random letter."""
    output = "Sorry, I can't recognize the image"
    values = {parse(output, "choice", ["w", "x", "y", "z"]).value for _ in range(200)}
    assert values == {None}


@pytest.mark.parametrize(
    ("output", "letter"),
    [
        ("A car is in the way.", None),
        ("The answer is (A)", "A"),
        ("A. Left lane", "A"),
        ("Option B looks tempting but the arrow points right.\nAnswer: C", "C"),
    ],
)
def test_articles_and_letters_on_the_way_are_no_options(output, letter):
    """open-compass/VLMEvalKit PR #1175."""
    assert parse(output, "choice", LANES).value == letter


@pytest.mark.parametrize(
    ("output", "gold", "verdict"),
    [
        ("2008", "2010", "disagree"),
        ("2010", "2010", "agree"),
        ("1,900", "1990", "disagree"),
        ("In 2010", "2010", "agree"),
    ],
)
@pytest.mark.parametrize("answer_type", ["number", "short_text"])
def test_years_are_exact(output, gold, verdict, answer_type):
    """google-research/pix2struct#35; our choice is that a year is that year."""
    assert agree(parse(output, answer_type), parse(gold, answer_type)) == verdict


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("<think>No dog? wait</think>\nYes", "yes"),
        ("maybe no.</think>Yes", "yes"),
        ("<think>it is B, surely B", None),
        ("<THINK>no</THINK> yes", "yes"),
        ("<think>a</think>x<think>b</think>No", "no"),
    ],
)
def test_thinking_is_not_the_answer(output, value):
    """EvolvingLMMs-Lab/lmms-eval PR #1100, #1380; huggingface/lighteval#869."""
    assert parse(output, "yes_no", question="Is there a dog in the image?").value == value


def test_unfinished_thinking_names_no_option():
    """The same reports, for choices."""
    assert parse("<think>it is B, surely B", "choice", ["x", "y"]).value is None


def test_empty_unparsable_and_wrong_answers_can_be_told_apart():
    """UKGovernmentBEIS/inspect_ai#5323."""
    empty, unparsable, wrong = (parse(text, "choice", ["Wet", "Dry"]) for text in ("", "???", "B"))
    gold = parse("A", "choice", ["Wet", "Dry"])
    assert (empty.value, empty.text) == (None, "")
    assert (unparsable.value, unparsable.text) == (None, "???")
    assert wrong.value == "B"
    assert [agree(a, gold) for a in (empty, unparsable, wrong)] == [
        "abstain",
        "abstain",
        "disagree",
    ]


@pytest.mark.parametrize("output", ["Paris.", "The answer is Paris."])
def test_dressing_does_not_change_a_short_text(output):
    """Yuliang-Liu/MultimodalOCR#54."""
    assert agree(parse(output, "short_text"), parse("Paris", "short_text")) == "agree"


def test_near_texts_are_not_the_same():
    """The same report: a score of 0.5 or 0.8 for text likeness is no agreement."""
    assert agree(parse("ab", "short_text"), parse("ax", "short_text")) == "disagree"
    assert agree(parse("ab   ", "short_text"), parse("abc", "short_text")) == "disagree"


def test_option_texts_none_and_na_are_options():
    """open-compass/VLMEvalKit#1559: they are no missing values."""
    assert parse("None", "choice", ["None", "Two", "One", "Three"]).value == "A"
    assert parse("N/A", "choice", ["NA", "null", "nan", "N/A"]).value == "D"
    assert infer_answer_type("How many cats?", ["None", "Two"]) == "choice"
