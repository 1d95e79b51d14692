"""What one output to one question is worth, by metric and protocol."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from ...answers import Answer, AnswerType, agree, parse
from ..question import BenchmarkQuestion
from .readers import (
    TOLERANCE,
    LetterReader,
    YesNo,
    anls,
    exact_letter,
    lmms_letter,
    lmms_mmmu_letter,
    lmms_prefetched_letter,
    lmms_static_letter,
    lmms_yes_no,
    mmmu_letter,
    official_open_match,
    official_yes_no,
    relaxed_match,
    vlmevalkit_answers,
    vlmevalkit_letter,
    vlmevalkit_open_match,
    vlmevalkit_yes_no,
    without_thinking,
)

Protocol = Literal["typed", "strict", "vlmevalkit", "lmms"]
"""Whose reading of an output counts.

typed: ours, `answers.parse` and `answers.agree`. strict: the rule of the benchmark's own script or
paper. vlmevalkit, lmms: what VLMEvalKit and lmms-eval do, without a judge model.
"""

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


@dataclass(frozen=True, slots=True)
class Score:
    """One figure with its 95% interval.

    Attributes:
        protocol: Whose reading of the outputs it is, one of `PROTOCOLS`.
        metric: What is measured: "accuracy", "circular_accuracy", "precision", ...
        value: A fraction from 0 to 1; None where nothing can be computed (no output, or a ratio
            whose denominator is 0).
        low: Lower end of the interval; None where there is none.
        high: Upper end.
        questions: How many questions it is about.
        group: The part of the benchmark, as {"split": "random"}; empty for all of it.
    """

    protocol: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    questions: int
    group: Mapping[str, str] = field(default_factory=dict)


Grade = Callable[[BenchmarkQuestion, str], float | None]
"""From 0 (wrong) to 1 (right); None where the protocol leaves the question out."""

Rules = Mapping[Protocol, Grade]

_NUMBER = re.compile(
    r"[-+\u2212]?[$€£]?\d[\d.,]*%?(?: (?:thousand|million|billion|trillion))?", re.IGNORECASE
)


def read(question: BenchmarkQuestion, text: str) -> Answer:
    """Read an output as an answer of the question's type, or as an abstention."""
    return parse(text, question.answer_type, question.choices, question.question)


def is_right(question: BenchmarkQuestion, text: str) -> bool:
    """Whether an output says one of the accepted answers. An abstention does not."""
    return any(_same(question, text, answer) for answer in question.answers)


def is_unread(question: BenchmarkQuestion, text: str, *, right: bool) -> bool:
    """Whether no answer of the question's type is found in an output.

    Args:
        question: The question.
        text: The output.
        right: Whether the output is right by the benchmark's rule for typed answers.
    """
    return not right and read(question, text).value is None


def is_right_within_tolerance(question: BenchmarkQuestion, text: str) -> bool:
    """`is_right` with numbers that may be 5% off, but for years and whole numbers like them."""
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
    """Return what to read an output as: what the question wants, and what the accepted answer is.

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


def typed_yes_no(question: BenchmarkQuestion, text: str) -> YesNo | None:
    """Read an output as yes or no, by our own rules."""
    match read(question, text).value:
        case True:
            return "yes"
        case False:
            return "no"
    return None


YES_NO: Mapping[Protocol, Callable[[BenchmarkQuestion, str], YesNo | None]] = {
    "typed": typed_yes_no,
    "strict": lambda _, text: official_yes_no(text),
    "vlmevalkit": lambda _, text: vlmevalkit_yes_no(text),
    "lmms": lambda _, text: lmms_yes_no(text),
}


def typed(question: BenchmarkQuestion, text: str) -> float:
    """Grade 1 where we read one of the accepted answers."""
    return float(is_right(question, text))


def exact(question: BenchmarkQuestion, text: str) -> float:
    """Grade 1 for an accepted answer or its letter, but for case, outer blanks and a final stop."""
    said = text.strip().rstrip(".").lower()
    return float(said in {answer.strip().rstrip(".").lower() for answer in question.answers})


def _by_letter(reader: LetterReader) -> Grade:
    return lambda question, text: float(reader(text, question.choices) in question.answers)


def _mmmu(reader: LetterReader, open_match: Callable[[str, tuple[str, ...]], bool]) -> Grade:
    by_letter = _by_letter(reader)
    return lambda question, text: (
        by_letter(question, text) if question.choices else float(open_match(text, question.answers))
    )


def _typed_chart(question: BenchmarkQuestion, text: str) -> float:
    return float(is_right_within_tolerance(question, text))


def _strict_chart(question: BenchmarkQuestion, text: str) -> float:
    return float(any(relaxed_match(text.strip(), answer) for answer in question.answers))


def _vlmevalkit_chart(question: BenchmarkQuestion, text: str) -> float:
    answers = [one for answer in question.answers for one in vlmevalkit_answers(answer)]
    return float(any(relaxed_match(text.strip(), answer) for answer in answers))


def _choices_only(grade: Grade) -> Grade:
    return lambda question, text: grade(question, text) if question.choices else None


def _lmms_real_world(question: BenchmarkQuestion, text: str) -> float | None:
    if question.choices:
        return _by_letter(lmms_letter)(question, text)
    return exact(question, without_thinking(text))


def _strict_real_world(question: BenchmarkQuestion, text: str) -> float | None:
    return (_by_letter(exact_letter) if question.choices else exact)(question, text)


def _unread(grade: Grade) -> Rules:
    """Find outputs in which no answer is found, by the rule for typed answers that grades them."""
    return {
        "typed": lambda question, text: float(
            is_unread(question, text, right=bool(grade(question, text)))
        )
    }


_ANLS: Rules = {
    "typed": lambda question, text: anls(read(question, text).text, question.answers),
    "strict": lambda question, text: anls(text, question.answers),
    "vlmevalkit": lambda question, text: anls(text, question.answers),
    "lmms": lambda question, text: anls(without_thinking(text), question.answers),
}
_MMBENCH: Rules = {
    "typed": typed,
    "strict": _by_letter(vlmevalkit_letter),
    "vlmevalkit": _by_letter(vlmevalkit_letter),
    "lmms": _by_letter(lmms_prefetched_letter),
}

RULES: Mapping[str, Mapping[str, Rules]] = {
    "accuracy": {"accuracy": {"typed": typed, "strict": exact}, "unread": _unread(typed)},
    "mmmu": {
        "accuracy": {
            "typed": typed,
            "strict": _mmmu(mmmu_letter, official_open_match),
            "vlmevalkit": _mmmu(vlmevalkit_letter, vlmevalkit_open_match),
            "lmms": _mmmu(
                lmms_mmmu_letter,
                lambda text, answers: official_open_match(without_thinking(text), answers),
            ),
        },
        "unread": _unread(typed),
    },
    "mmbench": {
        "accuracy": _MMBENCH,
        "static_accuracy": {"lmms": _by_letter(lmms_static_letter)},
        "unread": _unread(typed),
    },
    "chartqa": {
        "relaxed_accuracy": {
            "typed": _typed_chart,
            "strict": _strict_chart,
            "vlmevalkit": _vlmevalkit_chart,
            "lmms": lambda question, text: _strict_chart(question, without_thinking(text)),
        },
        "unread": _unread(_typed_chart),
    },
    "infovqa": {"accuracy": {"typed": typed}, "anls": _ANLS, "unread": _unread(typed)},
    "realworldqa": {
        "accuracy": {
            "typed": typed,
            "strict": _strict_real_world,
            "vlmevalkit": _choices_only(_by_letter(vlmevalkit_letter)),
            "lmms": _lmms_real_world,
        },
        "unread": _unread(typed),
    },
}
"""By the benchmark's metric and the name of a figure, the rule of each protocol that has one.

POPE's accuracy is among its own figures, in `scoring.py`.
"""
