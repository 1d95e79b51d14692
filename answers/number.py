"""Reads the number that a final answer states."""

import re
from collections.abc import Sequence
from decimal import Decimal

from .number_formats import Number, NumberMention, multiply, number_mentions
from .plain_text import sentences

_EQUALS = re.compile(r"[=≈] ?$")
_PREDICATE = re.compile(
    r"(?:\b(?:is|are|was|were|equals|be)|=|≈|:) ?"
    r"(?:about|approximately|around|roughly|only|exactly|just|~)? ?$",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\((?!or\b)[^()]*\)")
_CONCLUSION = re.compile(
    r"(?:so|thus|therefore|hence|in total|in conclusion|overall|total|finally)\b|=|≈", re.IGNORECASE
)
_AROUND_WHOLE = re.compile(
    r"(?:approximately|approx\.?|about|around|roughly|circa|ca\.|exactly|only|in|~|≈|[a-z]?=|a)*+",
    re.IGNORECASE,
)
_SHARE = re.compile(
    r"%|\b(?:percent(?:ages?)?|per cent|fractions?|proportions?|share(?! (?:price|value)))\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\b(?:how many|number of|count)\b", re.IGNORECASE)
_NONE = re.compile(
    r"(?:none|nothing|no \w+(?: \w+)?|zero)[.!]?$|.{0,40}\bthere (?:are|is) (?:no|none)\b",
    re.IGNORECASE,
)
_FEW_SENTENCES = 2  # A longer text mentions numbers on its way.


def asks_for_share(question: str) -> bool:
    """Whether a question asks for a percentage, share or fraction, so that 0.12 means 12%."""
    return _SHARE.search(question) is not None


def whole_number(text: str, question: str = "") -> Number | None:
    """The number that a plain text consists of, but for words like "about"; else None."""
    text = text.strip(" \"'()[]{}<>,;!?").rstrip(".")
    if len(mentions := number_mentions(text)) != 1:
        return None
    around = text[: mentions[0].start] + text[mentions[0].end :]
    if not _AROUND_WHOLE.fullmatch("".join(around.split())):
        return None
    return _as_share(mentions[0].number, question)


def read_number(text: str, question: str = "") -> Number | None:
    """The one number that a final answer states, or None.

    Where several are mentioned, those that the question mentions too do not count; else the one
    that the last sentence states after "is" or "=". To "how many", "none" is 0.

    Args:
        text: A final answer, plain.
        question: What was asked.
    """
    lines = text.split("\n")
    whole = {n for line in (lines[0], lines[-1]) if (n := whole_number(line, question))}
    if whole:
        return whole.pop() if len(whole) == 1 else None
    said = [_without_brackets(sentence) for sentence in sentences(text)]
    mentions = [number_mentions(sentence) for sentence in said]
    if not any(mentions):
        counted_none = _HOW_MANY.search(question) and _NONE.match(text)
        return Number(0.0) if counted_none else None
    asked = {mention.number.value for mention in number_mentions(question)}
    number = None
    if len(said) <= _FEW_SENTENCES:
        number = _only([mention for found in mentions for mention in found], asked)
    if number is None and (len(said) == 1 or _CONCLUSION.match(said[-1])):
        number = _only(mentions[-1], asked) or _stated(said[-1], mentions[-1])
    return number and _as_share(number, question)


def _without_brackets(sentence: str) -> str:
    """The sentence without what it adds in brackets, if a number is left."""
    rest = _BRACKETS.sub("", sentence)
    return rest if number_mentions(rest) else sentence


def _only(mentions: Sequence[NumberMention], asked: set[float]) -> Number | None:
    """The number of all mentions, or of all that the question has not; None if they differ."""
    numbers = [mention.number for mention in mentions]
    for candidates in (numbers, [number for number in numbers if number.value not in asked]):
        if len({number.value for number in candidates}) == 1:
            return max(candidates, key=lambda number: len(number.unit))
    return None


def _stated(sentence: str, mentions: Sequence[NumberMention]) -> Number | None:
    """The last number of a sentence, if it alone follows "=", or else "is"."""
    for sign in (_EQUALS, _PREDICATE):
        stated = [m for m in mentions if sign.search(sentence, max(0, m.start - 40), m.start)]
        if len(stated) == 1 and stated[0] is mentions[-1]:
            return stated[0].number
    return None


def _as_share(number: Number, question: str) -> Number:
    """The number as a percentage, if it is a bare fraction and the question asks for a share."""
    if number.unit == "" and 0 < abs(number.value) < 1 and asks_for_share(question):
        exact = number.exact and multiply(number.exact, Decimal(100))
        return Number(round(number.value * 100, 10), "%", exact)
    return number
