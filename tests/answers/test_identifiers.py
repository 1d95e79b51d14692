"""Numbers that name things: phones, plates, rooms, versions; they have a spelling and no size."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from langgraph_mai.answers import agree, infer_answer_type, parse

THINGS = "phone plate license flight serial room invoice page house bus route account order gate"
QUESTIONS = [
    *(f"What is the {thing} number?" for thing in THINGS.split()),
    "What is the number on the shirt?",
    "What number is on the door?",
    "What is the number of the bus?",
    "What version is shown?",
    "Which page is open?",
    "What's the zip code?",
    "电话号码是多少?",
]
PHONE, VERSION = QUESTIONS[0], "What version is shown?"
SEPARATORS = st.sampled_from(["", " ", "-", "/", ".", ") "])


def verdict(a, b, question="", answer_type="short_text"):
    first, second = (parse(text, answer_type, question=question) for text in (a, b))
    assert agree(first, second) == agree(second, first)
    return agree(first, second)


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_goes_by_a_number_is_a_short_text(question):
    assert infer_answer_type(question) == "short_text"


@pytest.mark.parametrize(
    "question",
    [
        "What is the number of dogs?",
        "What is the total number of rooms?",
        "How many phone numbers are listed?",
        "What is the average value on page 3?",
        "What number does the red bar show?",
        "What is the number on the scale?",
    ],
)
def test_what_has_a_size_is_a_number(question):
    assert infer_answer_type(question) == "number"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("(555) 123-4567", "(555) 987-6543"),
        ("ABC 123", "XYZ 123"),
        ("BA 117", "LH 117"),
        ("12", "12B"),
        ("12B", "12 billion"),
        ("1.10", "1.1"),
        ("1.10", "110"),
        ("007", "7"),
        ("1/2024", "12024"),
        ("12-3", "123"),
        ("12345678901234567890", "12345678901234567891"),
    ],
)
@pytest.mark.parametrize("question", [PHONE, VERSION])
def test_different_identifiers(question, a, b):
    assert verdict(a, b, question) == "disagree"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("(555) 123-4567", "555-123-4567"),
        ("ABC 123", "abc-123"),
        ("BA117", "The flight is BA 117."),
        ("No. 12", "12"),
        ("#12", "twelve"),
    ],
)
def test_one_identifier_in_other_dress(a, b):
    assert verdict(a, b, "What is the flight number?") == "agree"


@given(st.from_regex(r"[0-9]{1,25}", fullmatch=True), st.from_regex(r"[0-9]{1,25}", fullmatch=True))
def test_digits_that_name_agree_only_as_written_and_are_shown_as_written(a, b):
    assert verdict(a, b, PHONE) == ("agree" if a == b else "disagree")
    assert parse(a, "short_text", question=PHONE).shown == a


@given(st.from_regex(r"[0-9]{1,25}", fullmatch=True), st.from_regex(r"[0-9]{1,25}", fullmatch=True))
def test_whole_numbers_of_any_length_agree_only_with_themselves(a, b):
    assume(a != b)
    assert verdict(a, b) == "disagree"
    assert verdict(a, b, answer_type="number") in {"disagree", "abstain"}


@given(st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,60})?", fullmatch=True))
def test_no_digits_are_shown_that_were_not_written(text):
    shown = parse(text, "number").shown
    assert text.startswith(shown) or (float(text) == 0 and shown == "0")


@given(
    st.from_regex(r"[A-Z]{1,4}", fullmatch=True).filter(
        lambda letters: parse(f"5 {letters}", "number").unit == ""
    ),
    SEPARATORS.filter(lambda separator: separator not in (".", ") ")),
    st.integers(10, 9999).map(str),
    st.booleans(),
)
def test_letters_beside_digits_leave_no_quantity(letters, separator, digits, first):
    assume(letters not in {"K", "T", "MN", "BN", "TN", "USD", "EUR", "GBP", "INR", "RS", "MLN"})
    assume(letters not in {"E", "MIO"})
    code = letters + separator + digits if first else digits + separator.strip("/-.") + letters
    assert parse(code, "number").value is None


@pytest.mark.parametrize(
    "output",
    [
        "(555) 123-4567",
        "555-123-4567",
        "020 7946 0958",
        "The number is 555 123-4567.",
        "0123456789",
        "007",
        "1/2024",
        "2024/001",
        "12B",
        "12 M",
        "12M",
        "The flight number is BA 117.",
        "12345678901234567890",
    ],
)
def test_digit_groups_and_codes_are_no_quantity(output):
    assert parse(output, "number").value is None


@pytest.mark.parametrize("output", ["1.10", "12k", "1,234"])
def test_a_number_that_names_is_read_as_a_number_only_if_it_is_a_plain_one(output):
    assert parse(output, "number", question=VERSION).value is None
    assert parse("12", "number", question=VERSION).value == 12


@pytest.mark.parametrize(
    ("output", "value"),
    [("$12B", 12e9), ("$12 M", 12e6), ("12M USD", 12e6), ("1.2M", 1.2e6), ("12 billion", 12e9)],
)
def test_letters_are_a_scale_beside_a_currency_or_a_decimal(output, value):
    assert parse(output, "number").value == value


@pytest.mark.parametrize(
    ("output", "shown"),
    [("2.3 million", "2300000"), ("6.02e23", "6.02e+23"), ("5 months", "5 months")],
)
def test_scales_are_shown_without_float_noise(output, shown):
    assert parse(output, "number").shown == shown
