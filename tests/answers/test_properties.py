"""What holds for all outputs: parsing never fails, agreement is symmetric, dressing is nothing."""

import string
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from langgraph_mai.answers import agree, infer_answer_type, parse, split_choices

ANSWER_TYPES = ["yes_no", "choice", "number", "short_text", "list", "free_text"]
OPTIONS = ["red car", "blue car", "green truck", "no vehicle"]

# Text as models write it: words, markup and digits that the rules react to, and anything else.
PIECES = (
    "yes no not A B (C) D. Answer: answer is the The so wait, Wait if or and maybe there cannot "
    "see 12 3.5 1,234 50% $5 million -3 two one hundred 3/4 red car blue truck I ** __ ` \\boxed{ "
    "} $ <think> </think> <answer> </answer> { [ ( ) ] \" ' , ; : . ! ? - = 答案是 是 没有 "
    "\uff0d \uff21 ½ ²"
)
PHRASES = st.lists(st.sampled_from([*PIECES.split(), "\n", "\n\n"]), max_size=12).map(" ".join)
OUTPUTS = st.one_of(st.text(), PHRASES)
QUESTIONS = st.sampled_from(
    [
        "",
        "Is there a red car?",
        "How many cars are there?",
        "What share is red?",
        "Which color is it?",
    ]
)
WORDS = st.text(string.ascii_lowercase, min_size=4, max_size=8).filter(
    lambda word: parse(word, "short_text").value == word
)


PHONE = "What is the phone number?"
SEPARATORS = st.sampled_from(["", " ", "-", "/"])


def read(output, answer_type, question=""):
    return parse(output, answer_type, OPTIONS if answer_type == "choice" else (), question)


def verdict(answer_type, a, b, question=""):
    first, second = read(a, answer_type, question), read(b, answer_type, question)
    assert agree(first, second) == agree(second, first)
    return agree(first, second)


@given(OUTPUTS, st.sampled_from(ANSWER_TYPES), QUESTIONS)
def test_parsing_never_fails_and_keeps_its_kind(output, answer_type, question):
    answer = read(output, answer_type, question)
    assert answer.kind == answer_type
    assert isinstance(answer.shown, str)
    kinds = {"yes_no": bool, "number": float, "list": tuple}
    assert answer.value is None or isinstance(answer.value, kinds.get(answer_type, str))


@given(OUTPUTS, QUESTIONS)
def test_values_are_among_the_possible_ones(output, question):
    assert read(output, "choice", question).value in {None, "A", "B", "C", "D"}
    assert read(output, "yes_no", question).value in {None, True, False}


@given(OUTPUTS, OUTPUTS, st.sampled_from(ANSWER_TYPES), QUESTIONS)
def test_agreement_is_symmetric(a, b, answer_type, question):
    first, second = read(a, answer_type, question), read(b, answer_type, question)
    assert agree(first, second) == agree(second, first)


@given(OUTPUTS, st.sampled_from(ANSWER_TYPES), QUESTIONS)
def test_an_answer_agrees_with_itself_and_an_abstention_with_nothing(output, answer_type, question):
    answer = read(output, answer_type, question)
    assert agree(answer, answer) == ("abstain" if answer.value is None else "agree")


@given(OUTPUTS, st.sampled_from(ANSWER_TYPES))
def test_open_thinking_is_no_answer(output, answer_type):
    assume("</" not in output)
    assert read("<think>" + output, answer_type).value is None


DRESSINGS = [
    "{}",
    "{}.",
    "**{}**",
    "**{}.**",
    "`{}`",
    "“{}”",
    "\n\n  {}  \n",
    "Answer: {}",
    "**Answer:** {}",
    "Final answer: **{}**.",
    "### Final Answer\n\n{}",
    "The answer is {}.",
    "So the answer is: {}",
    "\\boxed{{{}}}",
    "$\\boxed{{\\text{{{}}}}}$",
    "<answer>{}</answer>",
    "<think>It may be something else.</think>\n{}",
    "It may be something else.</think>{}",
    "First I look at the picture. Then I think of it.\nAnswer: {}",
    "{}\n\nExplanation: this is what the picture shows.",
]


@pytest.mark.parametrize("dressing", DRESSINGS)
@given(
    st.one_of(
        st.tuples(st.just("yes_no"), st.sampled_from(["yes", "no", "Yes", "NO"])),
        st.tuples(st.just("choice"), st.sampled_from(["A", "b", "(C)", "D. no vehicle", *OPTIONS])),
        st.tuples(st.just("number"), st.integers(-(10**9), 10**9).map("{:,}".format)),
        st.tuples(st.just("number"), st.integers(0, 10**5).map(lambda n: f"{n / 100}%")),
        st.tuples(st.just("short_text"), st.lists(WORDS, min_size=1, max_size=3).map(" ".join)),
        st.tuples(st.just("list"), st.lists(WORDS, min_size=1, max_size=4).map(", ".join)),
    )
)
def test_dressing_does_not_change_the_value(dressing, plain):
    answer_type, text = plain
    value = read(text, answer_type).value
    assert value is not None
    assert read(dressing.format(text), answer_type).value == value


@given(st.lists(WORDS, min_size=1, max_size=6), st.randoms())
def test_the_order_of_a_list_is_nothing(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    first, second = read(", ".join(items), "list"), read("; ".join(shuffled), "list")
    assert agree(first, second) == "agree"
    assert agree(first, read(", ".join([*items, items[0]]), "list")) == "disagree"


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


@given(OUTPUTS)
def test_any_question_has_a_type_and_keeps_its_text_without_options(question):
    assert infer_answer_type(question) in ANSWER_TYPES
    stem, choices = split_choices(question)
    assert choices or stem == question
    assert len(choices) != 1


@given(st.lists(WORDS, min_size=2, max_size=8), st.sampled_from(["{}. {}", "({}) {}", "{}) {}"]))
def test_listed_options_are_found(texts, form):
    listed = [
        form.format(letter, text)
        for letter, text in zip(string.ascii_uppercase, texts, strict=False)
    ]
    question = "Which one is it?"
    assert split_choices("\n".join([question, *listed])) == (question, tuple(texts))
    assert split_choices(" ".join([question, *listed])) == (question, tuple(texts))


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


# Outputs of 50 kB, as models write them when they loop; a slow pattern would not finish.
LENGTH = 50_000
LOOP_OPTIONS = ["red car", "blue car", "the blue car is here", "no vehicle"]
LOOPS = [
    "The image shows a kitchen counter. ",
    "Wait, it is 3. ",
    "Answer: ",
    "Answer: B\n",
    "the answer is ",
    "if the answer is ",
    "<think>",
    "<think>a</think>",
    "<answer>",
    '{"answer": ',
    "\\boxed{",
    "\\frac{1",
    "Explanation: a\n",
    "A ",
    "B, ",
    'A " "',
    "option ",
    "yes ",
    "yes no ",
    "not ",
    "no ",
    "with no ",
    "there is ",
    "I cannot ",
    "the blue car ",
    "one ",
    "one and ",
    "hundred ",
    "is 3 ",
    "1 234 ",
    "1,234,",
    "1.234.",
    "1/",
    "1e",
    "1\u00d710^",
    "a=",
    "(3) 4 ",
    '{"answer": [',
    "{'answer': \"",
    "9",
    "$",
    "*",
    "_",
    "(",
    '"',
    "\\",
    "\n",
    " ",
    ". ",
    "没有",
    "不是",
    "A/B ",
    "BA 117 ",
    "(5) 1-2 ",
    "no, wait ",
    "oh, hmm, ",
    "is missing ",
    "> ",
    "No. ",
]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "answer_type", ["yes_no", "choice", "number", "short_text", "list", "free_text"]
)
def test_loops_are_read(answer_type, loop):
    output = loop * (LENGTH // len(loop))
    choices = LOOP_OPTIONS if answer_type == "choice" else ()
    answer = parse(output, answer_type, choices, "How many red cars are there?")
    assert agree(answer, answer) == ("abstain" if answer.value is None else "agree")


@pytest.mark.parametrize("answer_type", ["yes_no", "choice", "number", "short_text"])
def test_a_loop_before_the_answer_does_not_hide_it(answer_type):
    answer = {"yes_no": "yes", "choice": "B", "number": "12", "short_text": "Japan"}[answer_type]
    output = "I look at the picture once more. " * 3000 + f"\nAnswer: {answer}"
    read = parse(output, answer_type, LOOP_OPTIONS if answer_type == "choice" else ())
    assert agree(read, parse(answer, answer_type)) == "agree"
