"""Open questions of MMMU, as its own script and VLMEvalKit score them."""

import re
from collections.abc import Sequence

from .letters import vlmevalkit_letter

_KEYS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_TRIVIAL = frozenset(":,.!?;'")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)


def official_open_match(text: str, answers: Sequence[str]) -> bool:
    """MMMU's own script: an accepted number among the output's, or an accepted text in its tail.

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
    """VLMEvalKit: the question as a choice between the answer and "Other Answers"."""
    answer = answers[0] if len(answers) == 1 else str(list(answers))
    return vlmevalkit_letter(text, (answer, "Other Answers")) == "A"


def _stated(text: str) -> list[str | float]:
    """The tails of an output and the numbers in them, in the forms that are compared."""
    lower = text.strip().strip(".").lower()
    lines = lower.split("\n")
    tails = [tail for line in lines[:-1] if (tail := _tail(line, _KEYS))]
    tails += [tail] if (tail := _tail(lines[-1], (*_KEYS, "="))) else []
    tails = tails or [lower]
    numbers = [number for tail in tails for form in _NUMBERS for number in form.findall(tail)]
    return [form for part in (*tails, *numbers) for form in _forms(part)]


def _tail(line: str, keys: Sequence[str]) -> str:
    """The shortest text behind a key word; empty if there is none or it is one mark."""
    shortest = ""
    for key in keys:
        if key in line:
            tail = line.rsplit(key, maxsplit=1)[-1].strip()
            if not shortest or len(tail) < len(shortest):
                shortest = tail
    return "" if shortest in _TRIVIAL else shortest


def _forms(text: str) -> list[str | float]:
    """A number as a float with two decimals; a text in lower case, a letter with its blanks."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lower = text.lower()
    return [f" {lower}", f"{lower} "] if len(lower) == 1 else [lower]
