"""What one output to one question is worth, by metric and protocol."""

from collections.abc import Callable, Mapping

from ..question import BenchmarkQuestion
from .anls import anls
from .letters import (
    LetterReader,
    exact_letter,
    lmms_letter,
    lmms_mmmu_letter,
    lmms_prefetched_letter,
    lmms_static_letter,
    mmmu_letter,
    vlmevalkit_letter,
)
from .mmmu_open import official_open_match, vlmevalkit_open_match
from .relaxed import relaxed_match, vlmevalkit_answers
from .scores import Protocol
from .thinking import without_thinking
from .typed import is_right, is_right_within_tolerance, read
from .yes_no import YesNo, lmms_yes_no, official_yes_no, vlmevalkit_yes_no

Grade = Callable[[BenchmarkQuestion, str], float | None]
"""From 0 (wrong) to 1 (right); None where the protocol leaves the question out."""

Rules = Mapping[Protocol, Grade]


def typed_yes_no(question: BenchmarkQuestion, text: str) -> YesNo | None:
    """Our reading of an output as yes or no."""
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
    """1 where we read one of the accepted answers."""
    return float(is_right(question, text))


def exact(question: BenchmarkQuestion, text: str) -> float:
    """1 for an accepted answer or its letter, but for case, outer blanks and a stop at the end."""
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
    """Outputs in which no answer is found, by the rule for typed answers that grades them."""
    return {
        "typed": lambda question, text: float(
            read(question, text).value is None and not grade(question, text)
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

POPE's accuracy is among its own figures, in `pope.py`.
"""
