"""What holds for all outputs: parsing never fails, agreement is symmetric, dressing is nothing."""

import string

from hypothesis import assume, given, settings
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
    "{}", "{}.", "**{}**", "**{}.**", "`{}`", "“{}”", "\n\n  {}  \n", "Answer: {}",
    "**Answer:** {}", "Final answer: **{}**.", "### Final Answer\n\n{}", "The answer is {}.",
    "So the answer is: {}", "\\boxed{{{}}}", "$\\boxed{{\\text{{{}}}}}$", "<answer>{}</answer>",
    "<think>It may be something else.</think>\n{}", "It may be something else.</think>{}",
    "First I look at the picture. Then I think of it.\nAnswer: {}",
    "{}\n\nExplanation: this is what the picture shows.",
]  # fmt: skip


@settings(max_examples=400)
@given(
    st.sampled_from(DRESSINGS),
    st.one_of(
        st.tuples(st.just("yes_no"), st.sampled_from(["yes", "no", "Yes", "NO"])),
        st.tuples(st.just("choice"), st.sampled_from(["A", "b", "(C)", "D. no vehicle", *OPTIONS])),
        st.tuples(st.just("number"), st.integers(-(10**9), 10**9).map("{:,}".format)),
        st.tuples(st.just("number"), st.integers(0, 10**5).map(lambda n: f"{n / 100}%")),
        st.tuples(st.just("short_text"), st.lists(WORDS, min_size=1, max_size=3).map(" ".join)),
        st.tuples(st.just("list"), st.lists(WORDS, min_size=1, max_size=4).map(", ".join)),
    ),
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
