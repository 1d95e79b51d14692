"""Our own reading of an output: typed answers, compared with the accepted ones."""

from ...answers import Answer, AnswerType, agree, parse
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
    # "Yes, it is wet." is the text "yes" to no one who does not know that yes or no is wanted.
    yes_or_no = question.answer_type == "short_text" and answer.strip().lower() in ("yes", "no")
    kind: AnswerType = "yes_no" if yes_or_no else question.answer_type
    right = parse(answer, kind, (), question.question)
    if right.value is None:  # of another kind than the question makes one expect
        kind = "short_text"
        right = parse(answer, kind, (), question.question)
    return agree(parse(text, kind, (), question.question), right) == "agree"


def _within(question: BenchmarkQuestion, text: str, answer: str) -> bool:
    stated, right = (parse(words, "number", (), question.question) for words in (text, answer))
    if not isinstance(stated.value, float) or not isinstance(right.value, float):
        return False
    if not right.value or (right.value.is_integer() and 1000 <= right.value <= 2100):
        return False
    if stated.unit and right.unit and stated.unit != right.unit:
        return False
    return abs(stated.value - right.value) <= TOLERANCE * abs(right.value)
