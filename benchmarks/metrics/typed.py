"""Our own reading of an output: typed answers, compared with the accepted ones."""

from ...answers import Answer, agree, parse
from ..question import BenchmarkQuestion
from .relaxed import TOLERANCE


def read(question: BenchmarkQuestion, text: str) -> Answer:
    """An output as an answer of the question's type, or as an abstention."""
    return parse(text, question.answer_type, question.choices, question.question)


def is_right(question: BenchmarkQuestion, text: str) -> bool:
    """Whether an output says one of the accepted answers. An abstention does not."""
    return any(_same(question, text, answer) for answer in question.answers)


def is_right_within_tolerance(question: BenchmarkQuestion, text: str) -> bool:
    """The same with numbers that may be 5% off, but for years and whole numbers like them."""
    return is_right(question, text) or any(
        _within(question, text, answer) for answer in question.answers
    )


def _same(question: BenchmarkQuestion, text: str, answer: str) -> bool:
    if question.answer_type == "choice":
        return read(question, text).value == answer
    right = parse(answer, question.answer_type, (), question.question)
    if right.value is not None:
        return agree(read(question, text), right) == "agree"
    # An accepted answer of another kind than the question makes one expect.
    a, b = (parse(words, "short_text", (), question.question) for words in (text, answer))
    return agree(a, b) == "agree"


def _within(question: BenchmarkQuestion, text: str, answer: str) -> bool:
    stated, right = (parse(words, "number", (), question.question) for words in (text, answer))
    if not isinstance(stated.value, float) or not isinstance(right.value, float):
        return False
    if not right.value or (right.value.is_integer() and 1000 <= right.value <= 2100):
        return False
    if stated.unit and right.unit and stated.unit != right.unit:
        return False
    return abs(stated.value - right.value) <= TOLERANCE * abs(right.value)
