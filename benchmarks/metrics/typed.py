"""Our own reading of an output: typed answers, compared with the accepted ones."""

import re
from typing import Literal

from ...answers import Answer, AnswerType, agree, parse
from ..question import BenchmarkQuestion
from .relaxed import TOLERANCE

_NUMBER = re.compile(
    r"[-+\u2212]?[$€£]?\d[\d.,]*%?(?: (?:thousand|million|billion|trillion))?", re.IGNORECASE
)

Outcome = Literal["right", "wrong", "unread", "empty"]
"""What became of one question: unread is an output in which no answer of its type is found."""


def read(question: BenchmarkQuestion, text: str) -> Answer:
    """An output as an answer of the question's type, or as an abstention."""
    return parse(text, question.answer_type, question.choices, question.question)


def is_right(question: BenchmarkQuestion, text: str) -> bool:
    """Whether an output says one of the accepted answers. An abstention does not."""
    return any(_same(question, text, answer) for answer in question.answers)


def outcome(question: BenchmarkQuestion, text: str, *, right: bool) -> Outcome:
    """What became of a question.

    Args:
        question: The question.
        text: The output.
        right: Whether the output is right by the benchmark's rule for typed answers.
    """
    if not text.strip():
        return "empty"
    if right:
        return "right"
    return "unread" if read(question, text).value is None else "wrong"


def is_right_within_tolerance(question: BenchmarkQuestion, text: str) -> bool:
    """The same with numbers that may be 5% off, but for years and whole numbers like them."""
    return is_right(question, text) or any(
        _within(question, text, answer) for answer in question.answers
    )


def _same(question: BenchmarkQuestion, text: str, answer: str) -> bool:
    if question.answer_type == "choice":
        return read(question, text).value == answer
    return any(
        agree(*(parse(words, kind, (), question.question) for words in (text, answer))) == "agree"
        for kind in _kinds(question, answer)
    )


def _kinds(question: BenchmarkQuestion, answer: str) -> list[AnswerType]:
    """What to read an output as: what the question asks for, and what the accepted answer is.

    "It is wet, yes" and "The income is 1,234." are the texts "yes" and "1234" only to someone who
    knows that a yes or a number is wanted, which questions do not always tell.
    """
    kinds: list[AnswerType] = [question.answer_type]
    if question.answer_type == "short_text" and answer.strip().lower() in ("yes", "no"):
        kinds = ["yes_no"]
    elif question.answer_type == "short_text" and _NUMBER.fullmatch(answer.strip()):
        kinds.append("number")
    elif parse(answer, question.answer_type, (), question.question).value is None:
        kinds.append("short_text")
    return kinds


def _within(question: BenchmarkQuestion, text: str, answer: str) -> bool:
    stated, right = (parse(words, "number", (), question.question) for words in (text, answer))
    if not isinstance(stated.value, float) or not isinstance(right.value, float):
        return False
    if not right.value or (right.value.is_integer() and 1000 <= right.value <= 2100):
        return False
    if stated.unit and right.unit and stated.unit != right.unit:
        return False
    return abs(stated.value - right.value) <= TOLERANCE * abs(right.value)
