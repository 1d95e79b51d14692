"""What holds for all numbers: they follow from what is written, all of it, in any dress."""

import string
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from langgraph_mai.answers import agree, parse

PHONE = "What is the phone number?"
SEPARATORS = st.sampled_from(["", " ", "-", "/"])


def read(output, answer_type="number", question=""):
    return parse(output, answer_type, question=question)


def verdict(answer_type, a, b, question=""):
    first, second = read(a, answer_type, question), read(b, answer_type, question)
    assert agree(first, second) == agree(second, first)
    return agree(first, second)


@given(st.integers(0, 10**12), st.integers(0, 99))
def test_number_formats_are_one_value(whole, cents):
    value = float(f"{whole}.{cents:02}")
    for text in (f"{whole}.{cents:02}", f"{whole:,}.{cents:02}", f"{whole:,}.{cents:02} kg"):
        assert read(text, "number").value == value
    european = f"{whole:,}".replace(",", ".") + f",{cents:02}"
    assert read(european, "number").value in {value, None}


@given(st.integers(-2100, 2100), st.integers(-2100, 2100))
def test_whole_numbers_agree_only_with_themselves(a, b):
    verdict = agree(read(str(a), "number"), read(str(b), "number"))
    assert verdict == ("agree" if a == b else "disagree")


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_agreeing_numbers_are_within_five_percent(a, b):
    answers = read(f"{a:.4f}", "number"), read(f"{b:.1f}", "number")
    if agree(*answers) == "agree":
        assert answers[0].value == pytest.approx(answers[1].value, rel=0.0501)


DECIMALS = st.from_regex(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,60}", fullmatch=True)
FORMS = {
    "{}": 1,
    "{}%": 1,
    "{} kg": 1,
    "{} million": 10**6,
    "{} trillion": 10**12,
    "${}": 1,
    "${}k": 1000,
    "€{}m": 10**6,
    "{}e12": 10**12,
    "{}e-7": Fraction(1, 10**7),
}


@given(DECIMALS, st.sampled_from(sorted(FORMS)))
def test_all_digits_that_were_written_are_shown(text, form):
    unsigned = text.removeprefix("-")
    answer = parse(text[: -len(unsigned)] + form.format(unsigned), "number")
    digits = answer.shown.translate(dict.fromkeys(map(ord, "$€%kg ")))
    assert Fraction(digits) == Fraction(text) * FORMS[form]
    decimals = digits.partition("e")[0]
    assert digits == "0" or "." not in decimals or not decimals.endswith("0")


@given(DECIMALS.filter(lambda text: 0 < abs(float(text)) < 1))
def test_a_share_is_shown_with_all_its_digits(text):
    shown = parse(text, "number", question="What percentage is red?").shown
    assert Fraction(shown.removesuffix("%")) == 100 * Fraction(text)


@given(DECIMALS, DECIMALS)
def test_digits_that_a_float_does_not_hold_change_no_agreement(a, b):
    first, second = parse(a, "number"), parse(b, "number")
    assert first == replace(first, exact=None)
    assert agree(first, second) == agree(*(replace(one, exact=None) for one in (first, second)))
    longer = f"{a}{'0' * 20}1"
    assert agree(first, parse(longer, "number")) == "agree"


@given(st.from_regex(r"[0-9]{1,25}", fullmatch=True), st.from_regex(r"[0-9]{1,25}", fullmatch=True))
def test_digits_that_name_agree_only_as_written_and_are_shown_as_written(a, b):
    assert verdict("short_text", a, b, PHONE) == ("agree" if a == b else "disagree")
    assert parse(a, "short_text", question=PHONE).shown == a


@given(st.from_regex(r"[0-9]{1,25}", fullmatch=True), st.from_regex(r"[0-9]{1,25}", fullmatch=True))
def test_whole_numbers_of_any_length_agree_only_with_themselves(a, b):
    assume(a != b)
    assert verdict("short_text", a, b) == "disagree"
    assert verdict("number", a, b) in {"disagree", "abstain"}


@given(st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,60})?", fullmatch=True))
def test_no_digits_are_shown_that_were_not_written(text):
    shown = parse(text, "number").shown
    assert text.startswith(shown) or (float(text) == 0 and shown == "0")


@given(
    st.from_regex(r"[A-Z]{1,4}", fullmatch=True).filter(
        lambda letters: parse(f"5 {letters}", "number").unit == ""
    ),
    SEPARATORS,
    st.integers(10, 9999).map(str),
    st.booleans(),
)
def test_letters_beside_digits_leave_no_quantity(letters, separator, digits, first):
    assume(letters not in {"K", "T", "MN", "BN", "TN", "USD", "EUR", "GBP", "INR", "RS", "MLN"})
    assume(letters not in {"E", "MIO"})
    code = letters + separator + digits if first else digits + separator.strip("/-") + letters
    assert parse(code, "number").value is None


ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WRITTEN = st.one_of(
    st.integers(1, 10**6).map(lambda n: (str(n), Fraction(n))),
    st.integers(1000, 10**9).map(lambda n: (f"{n:,}", Fraction(n))),
    st.decimals("0.01", 9999, places=2).map(lambda n: (str(n), Fraction(n))),
    st.tuples(st.integers(2, 8), st.sampled_from(TENS)).map(
        lambda n: (f"{n[1]}-{ONES[n[0] - 1]}", Fraction(10 * (TENS.index(n[1]) + 2) + n[0]))
    ),
    st.tuples(st.integers(1, 99), st.integers(1, 4), st.integers(5, 9)).map(
        lambda n: (f"{n[0]} {n[1]}/{n[2]}", n[0] + Fraction(n[1], n[2]))
    ),
    st.tuples(st.integers(1, 99), st.integers(1, 4), st.integers(5, 9)).map(
        lambda n: (rf"{n[0]}\frac{{{n[1]}}}{{{n[2]}}}", n[0] + Fraction(n[1], n[2]))
    ),
)
SCALES = st.sampled_from([("", 1), (" thousand", 10**3), (" million", 10**6), (" billion", 10**9)])
UNITS = st.sampled_from(
    [("", "", ""), ("$", "", "$"), ("€", "", "€"), ("", "%", "%"), ("", " percent", "%")]
    + [("", " " + unit, unit) for unit in ("kg", "cm", "km/h", "ml", "m²")]
    + [("", " people", ""), ("", " clips", "")]
)
# Ways to write the same quantity: blanks, Markdown, LaTeX, a sentence around it, a model's tokens.
REWRITINGS = [
    "{}",
    "  {}\n",
    "**{}**",
    "It is {}.",
    "The total is {}.",
    "Answer: {}",
    "So the answer is **{}**.",
    "\\boxed{{{}}}",
    "<|begin_of_box|>{}<|end_of_box|>",
    "{}<|im_end|>",
    "\\text{{{}}}",
    "=> {}",
]


@given(WRITTEN, SCALES, UNITS, st.booleans(), st.sampled_from(REWRITINGS))
def test_value_scale_sign_and_unit_survive_rewriting(written, scale, unit, negative, rewriting):
    (digits, value), (word, factor), (before, after, name) = written, scale, unit
    assume(not (word and "frac" in digits) and not (word and "/" in digits))
    assume(not (negative and not digits[0].isdigit()))
    text = f"{'-' if negative else ''}{before}{digits}{word}{after}"
    answer = read(rewriting.format(text))
    if answer.value is not None:  # Unread is no fault, a wrong value or unit is.
        assert answer.value == pytest.approx(float((-1) ** negative * value * factor), rel=1e-12)
        assert answer.unit == name
    if rewriting in [*REWRITINGS[:3], "Answer: {}"]:
        assert answer.value is not None


@given(
    st.integers(2, 99999),
    st.sampled_from(["", " ", "-", "/", ":", ".", ",", "^", " or ", " to ", " - ", "x", "_"]),
    st.integers(2, 99999),
)
def test_a_number_beside_another_is_never_read_alone(a, separator, b):
    assume(a != b)
    assert read(f"{a}{separator}{b}").value not in {float(a), float(b)}


@given(WRITTEN, st.text(string.ascii_letters + "^", min_size=1, max_size=3), st.booleans())
def test_letters_attached_to_a_number_are_its_unit_or_leave_it_unread(written, letters, before):
    digits, _ = written
    answer = read(letters + digits if before else digits + letters)
    scale = not before and letters.lower() in {"k", "m", "b", "t", "mm", "bn", "mn", "tn"}
    assert answer.value is None or answer.unit or scale
