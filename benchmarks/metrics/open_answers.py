"""Rules for answers without options: ANLS, ChartQA's relaxed match, MMMU's open questions."""

import ast
import re
from collections.abc import Sequence

from .readers import vlmevalkit_letter

ANLS_FLOOR = 0.5
"""A similarity below it counts as 0."""

TOLERANCE = 0.05
"""In ChartQA, how far a number may be from the right one, as a share of it."""

_KEYS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_TRIVIAL = frozenset(":,.!?;'")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)


def anls(prediction: str, answers: Sequence[str]) -> float:
    """Return the similarity to the nearest accepted answer.

    By the script of the Robust Reading Competition: case and runs of blanks make no difference to
    the distance, but outer and inner blanks count in the length that it is divided by.

    Returns:
        From `ANLS_FLOOR` to 1, or 0.
    """
    nearest = max((_similarity(prediction, answer) for answer in answers), default=0.0)
    return nearest if nearest >= ANLS_FLOOR else 0.0


def _similarity(prediction: str, answer: str) -> float:
    from rapidfuzz.distance import Levenshtein

    length = max(len(prediction), len(answer))
    if not length:
        return 1.0
    a, b = (" ".join(text.lower().split()) for text in (prediction, answer))
    return 1 - Levenshtein.distance(a, b) / length


def relaxed_match(prediction: str, answer: str) -> bool:
    """Apply ChartQA's rule: within 5% of the right number, else the same text but for case.

    Percentages are divided by 100; a right 0 wants the same text. Years get the 5% too.
    """
    stated, right = _number(prediction), _number(answer)
    if stated is not None and right:
        return abs(stated - right) / abs(right) <= TOLERANCE
    return prediction.lower() == answer.lower()


def vlmevalkit_answers(answer: str) -> Sequence[str]:
    """Return the accepted answers like VLMEvalKit: a Python list in the data are alternatives."""
    try:
        value = ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return (answer,)
    return [str(item) for item in value] if isinstance(value, list) else (answer,)


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def official_open_match(text: str, answers: Sequence[str]) -> bool:
    """Apply MMMU's own script: an accepted number in the output, or an accepted text in its tail.

    The tail of each line is what follows the last word like "is" or "answer" (or "=" in the last
    line). Numbers are rounded to two decimals.
    """
    accepted = [form for answer in answers for form in _forms(answer)]
    words = [form for form in accepted if isinstance(form, str)]
    stated = _stated(text)
    return any(
        any(word in form for word in words) if isinstance(form, str) else form in accepted
        for form in stated
    )


def vlmevalkit_open_match(text: str, answers: Sequence[str]) -> bool:
    """Apply VLMEvalKit's rule: the question as a choice between the answer and "Other Answers"."""
    answer = answers[0] if len(answers) == 1 else str(list(answers))
    return vlmevalkit_letter(text, (answer, "Other Answers")) == "A"


def _stated(text: str) -> list[str | float]:
    """Return the tails of an output and the numbers in them, in the forms that are compared."""
    lower = text.strip().strip(".").lower()
    lines = lower.split("\n")
    tails = [tail for line in lines[:-1] if (tail := _tail(line, _KEYS))]
    tails += [tail] if (tail := _tail(lines[-1], (*_KEYS, "="))) else []
    tails = tails or [lower]
    numbers = [number for tail in tails for form in _NUMBERS for number in form.findall(tail)]
    return [form for part in (*tails, *numbers) for form in _forms(part)]


def _tail(line: str, keys: Sequence[str]) -> str:
    """Return the shortest text behind a key word; empty if there is none or it is one mark."""
    shortest = ""
    for key in keys:
        if key in line:
            tail = line.rsplit(key, maxsplit=1)[-1].strip()
            if not shortest or len(tail) < len(shortest):
                shortest = tail
    return "" if shortest in _TRIVIAL else shortest


def _forms(text: str) -> list[str | float]:
    """Return a number as a float with two decimals, a text in lower case, a letter with blanks."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lower = text.lower()
    return [f" {lower}", f"{lower} "] if len(lower) == 1 else [lower]
