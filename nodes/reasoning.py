"""Where a reasoning is cut before a model reads it: after a loop's first pass, or from its front.

A reasoning that exceeds a model's context is shortened from its front. Its end is what matters
most: there, what was seen has become an answer.
"""

import math
import re
import unicodedata
from typing import Literal, NamedTuple

from .reply import TooLong

Cut = Literal["length", "loop"]

_PASSES = 3
_LOOP_CHARACTERS = 80

TRIES = 6
"""How often a reasoning is shortened before the call is given up."""

_NEAR = 200
_LINE_END = re.compile(r"\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")
_WORD_END = re.compile(r"\s+")
_WORD = re.compile(r"\w")
_JOINER = "\u200d"
_ATTACHED = {"Mn", "Mc", "Me", "Sk"}


class Reasoning(NamedTuple):
    """A reasoning as it is transferred.

    Attributes:
        text: What is worth reading: all of it, or what comes before a loop.
        cut: None if the model finished; "length" if it hit its limit; "loop" if it repeats.
    """

    text: str
    cut: Cut | None = None


def cut_reasoning(text: str, finish_reason: str | None = None) -> Reasoning:
    """Cut a reasoning that ends in a loop after the loop's first pass, and mark what is incomplete.

    A loop is an end that repeats word for word, at least 3 times and over at least 80 characters
    (the last pass may be unfinished). Its first pass is kept: until then, it said something new.

    Args:
        text: The output of the model.
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


class Shortening:
    """A reasoning that is shortened until it fits into a context; `text` is what remains."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tries = 0
        self._before: tuple[int, int] | None = None

    def shorten(self, refused: TooLong | None) -> bool:
        """Drop what exceeds the context, and tell whether to call the model again.

        Where the model tells the prompt's length and its limit, as much goes as is needed, with
        capacity for the answer; otherwise half of it. `refused` is None if the call did not fail,
        or not for its length.
        """
        if refused is None or self._tries == TRIES:
            return False
        self._tries += 1
        text = without_front(self.text, self._kept(refused))
        if not _WORD.search(text):
            return False
        self.text = text
        return True

    def _kept(self, refused: TooLong) -> int:
        """Return how many characters may stay."""
        characters = len(self.text)
        if refused.limit is None or refused.length is None:
            return characters // 2
        # A token of the reasoning has at least as many characters, for the prompt has other tokens
        # too; what the former cut took away tells how many it really has.
        each = characters / refused.length
        if self._before and self._before[1] > refused.length:
            each = (self._before[0] - characters) / (self._before[1] - refused.length)
        self._before = (characters, refused.length)
        # An answer with little capacity is shorter; a reasoning with none is lost.
        answer = min(refused.answer, refused.limit // 4)
        excess = refused.length + answer - refused.limit
        return characters - max(1, characters // 16, math.ceil(excess * each))


def without_front(text: str, kept: int) -> str:
    """Return a text's last characters, from a line, sentence or word on if one begins nearby."""
    if kept <= 0:
        return ""
    start = max(0, len(text) - kept)
    if start == 0:
        return text
    for end in (_LINE_END, _SENTENCE_END, _WORD_END):
        # From the character before, which may be the end of a line itself.
        found = end.search(text, start - 1, start + min(_NEAR, kept // 4))
        if found and found.end() >= start:
            return text[found.end() :].strip()
    while start < len(text) and _is_attached(text, start):
        start += 1
    return text[start:].strip()


def _is_attached(text: str, index: int) -> bool:
    """Whether a code point is a part of the character before (an accent, a joined emoji)."""
    joined = _JOINER in text[index - 1 : index + 1]
    return joined or unicodedata.category(text[index]) in _ATTACHED
