"""Reading numbers."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.answers import agree, parse


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("12", 12),
        ("12.", 12),
        ("24.0", 24),
        (".5", 0.5),
        ("-5", -5),
        ("\u22128", -8),
        ("+47", 47),
        ("minus five", -5),
        ("1,234", 1234),
        ("12,34,567", 1234567),
        ("56 700", 56700),
        ("1.234.567", 1234567),
        ("1.234,56", 1234.56),
        ("\uff11\uff12", 12),
        ("١٢", 12),
        ("12\u00a0", 12),
        ("1.2e3", 1200),
        (r"$1.2 \times 10^{6}$", 1.2e6),
        ("3/4", 0.75),
        (r"\frac{3}{4}", 0.75),
        ("½", 0.5),
        ("twelve", 12),
        ("forty-seven", 47),
        ("one hundred and five", 105),
        ("two million three hundred thousand", 2.3e6),
        ("two dozen", 24),
        ("1.2M", 1.2e6),
        ("12k", 12000),
        ("3.4 billion", 3.4e9),
        ("about 50", 50),
        ("~5", 5),
        ("There are 4 bikes.", 4),
        ("12 12 12", 12),
        ("**Total: 12**", 12),
        (r"\boxed{12}", 12),
    ],
)
def test_formats(output, value):
    assert parse(output, "number").value == value


@pytest.mark.parametrize(
    ("output", "value", "unit"),
    [
        ("12%", 12, "%"),
        ("12 percent", 12, "%"),
        ("12 per cent", 12, "%"),
        (r"$12\%$", 12, "%"),
        ("$5 million", 5e6, "$"),
        ("$5m", 5e6, "$"),
        ("5m", 5, "m"),
        ("€47", 47, "€"),
        ("1,234.50 USD", 1234.5, "$"),
        ("9 kg", 9, "kg"),
        ("25 mph", 25, "mph"),
        ("9 countries", 9, ""),
    ],
)
def test_units(output, value, unit):
    answer = parse(output, "number")
    assert (answer.value, answer.unit) == (value, unit)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "nan",
        "inf",
        "1e400",
        "1_2",
        "3:4",
        "10:30",
        "5/10/2012",
        "3/0",
        "2.5.1",
        "10-14",
        "between 5 and 6",
        "47 or 50",
        "two or three",
        "more than 50",
        "50+",
        "1990s",
        "2nd",
        "two thirds",
        "3½",
        "10⁶",
        "COVID-19",
        "B2",
        "The left one",
        "One of the dogs",
        "Area A is the larger one",
        "I cannot read the chart.",
        "I cannot tell the number. There might be 4.",
        "40 in 2012 and 50 in 2013",
        "Let me look at the 3 bars. The first is at 5. Then there",
        "per cent per cent per cent",
    ],
)
def test_no_number_or_several(output):
    assert parse(output, "number").value is None


@pytest.mark.parametrize(
    ("output", "question", "value"),
    [
        ("In 2010, the value was 47.", "What was the value in 2010?", 47),
        ("10 + 2 = 12", "", 12),
        ("The answer is 12 (10 + 2).", "", 12),
        ("The total is 3 + 4 = 7 circles.", "", 7),
        ("The difference between 40 and 50 is 10.", "", 10),
        ("Step 1: the bar is 10.\nStep 2: add 2.\nSo the total is 12.", "", 12),
        ("12\n\nThe bars show 5 and 7.", "", 12),
        ("Answer: 40\nWait, I misread. Answer: 47", "", 47),
        ("40\nWait, it is 47.", "", 47),
    ],
)
def test_the_number_that_is_the_answer(output, question, value):
    assert parse(output, "number", question=question).value == value


@pytest.mark.parametrize("output", ["None", "zero", "No dogs", "There are no dogs."])
def test_none_is_zero_to_how_many(output):
    assert parse(output, "number", question="How many dogs are there?").value == 0
    assert parse("None", "number", question="What is the highest value?").value is None


def test_fraction_is_a_percentage_only_where_a_share_is_asked_for():
    assert parse("0.12", "number", question="What percentage is red?").shown == "12%"
    assert parse("3/4", "number", question="What fraction is red?").shown == "75%"
    assert parse("0.12", "number", question="What is the interest rate?").shown == "0.12"
    assert parse("0.12", "number", question="What is the share price?").shown == "0.12"


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


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("0.1234567890123456789", "0.1234567890123456789"),
        ("-1234567890123.45678900", "-1234567890123.456789"),
        ("1.234.567,890123456789012", "1234567.890123456789012"),
        ("-$0.00", "$0"),
        ("-0.0", "0"),
        ("1e-400", "1e-400"),
        ("2.50e-20", "2.5e-20"),
        ("9100 trillion", "9.1e+15"),
        ("1/3", "0.333333333333333"),
    ],
)
def test_numbers_are_shown_as_they_were_written(output, shown):
    assert parse(output, "number").shown == shown


@pytest.mark.parametrize("currency", "$€£¥₹")
@pytest.mark.parametrize("written", ["-{}5.20", "{}-5.20", "minus {}5.20"])
def test_a_sign_stands_before_or_behind_a_currency(currency, written):
    answer = parse(written.format(currency), "number")
    assert (answer.value, answer.unit, answer.shown) == (-5.2, currency, f"-{currency}5.2")
    assert parse(f"It lost {currency}-5m.", "number").value == -5e6
