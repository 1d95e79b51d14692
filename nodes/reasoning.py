"""Where a reasoning is cut before it is read by a model again."""

from dataclasses import dataclass
from typing import Literal

Cut = Literal["length", "loop"]

_PASSES = 3
_LOOP_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A reasoning as it is handed on.

    Attributes:
        text: What is worth reading: all of it, or what comes before a loop.
        cut: None if the model finished; "length" if it hit its limit; "loop" if it went round in
            circles.
    """

    text: str
    cut: Cut | None = None


def cut_reasoning(text: str, finish_reason: str | None = None) -> Reasoning:
    """Cut a reasoning that ends in a loop after the loop's first pass, and mark what is incomplete.

    A loop is an end that repeats word for word, at least 3 times and over at least 80 characters
    (the last pass may be unfinished). Its first pass is kept: until then, it said something new.

    Args:
        text: What the model wrote.
        finish_reason: Why it stopped; "length" means that it hit its limit.
    """
    end = _end_of_first_pass(text)
    if end is not None:
        return Reasoning(text[:end].rstrip(), "loop")
    return Reasoning(text, "length" if finish_reason == "length" else None)


def _end_of_first_pass(text: str) -> int | None:
    text = text.rstrip()
    for period in range(1, len(text) // _PASSES + 1):
        # The cheap test first: do the last two passes agree?
        if text[-period:] != text[-2 * period : -period]:
            continue
        start = len(text) - 2 * period
        while start > 0 and text[start - 1] == text[start - 1 + period]:
            start -= 1
        looped = len(text) - start
        if looped >= _PASSES * period and looped >= _LOOP_CHARACTERS:
            return start + period
    return None
