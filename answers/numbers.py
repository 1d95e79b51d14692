"""Read the number that a final answer states, and show numbers as people write them."""

import re
from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction

from .number_grammar import PREFIXED, Number, NumberMention, multiply, number_mentions
from .plain_text import PLACES, content_words, sentences, tokens

_EXACT = 2**53  # From here on a float no longer holds every whole number.
_TINY = 1e-12  # Below, decimals are shown as 1e-13.
_EQUALS = re.compile(r"[=≈] ?$")
_PREDICATE = re.compile(
    r"(?:\b(?:is|are|was|were|equals|(?<!may )(?<!might )(?<!could )be)|=|≈|:) ?"
    r"(?:about|approximately|around|roughly|only|exactly|just|~)? ?$",
    re.IGNORECASE,
)
# What a text adds in brackets, but for an operand.
_BRACKETS = re.compile(r"(?<![-+*/×÷^=(] )(?<![-+*/×÷^=(])\((?!or\b)[^()]*\)(?! ?[-+*/×÷^])")
_BRACKETED = re.compile(r"^[^()\n]+\([^()\n]+\)\.?$")
_NO = re.compile(r"\bno ", re.IGNORECASE)
_GROUPS = re.compile(r" (\w+) of (?:the |these |those )?(\w+)", re.IGNORECASE)
_CONCLUSION = re.compile(
    r"(?:so|thus|therefore|hence|in total|in conclusion|overall|total|finally|altogether|in all"
    r"|adding \w+(?: all)? up)\b|=|≈",
    re.IGNORECASE,
)
_AROUND_WHOLE = re.compile(
    r"(?:approximately|approx\.?|about|around|roughly|circa|ca\.|exactly|only|in|~|≈|=>|->|→|⇒"
    r"|#+|约|共|[a-z]?=|a)*+",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(r"\([^()]*\)\.?")
_OF_ACCOUNTS = re.compile(r"\b(?:loss|profit|income|balance|net|cash|earnings)\b", re.IGNORECASE)
_HALF = re.compile(r"(?:an? |one[ -])?half", re.IGNORECASE)
_SHARE = re.compile(
    r"%|\b(?:percent(?:ages?)?|per cent|fractions?|proportions?|share(?! (?:price|value)))\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\b(?:how many|number of|count)\b|几|多少", re.IGNORECASE)
_COUNTED = re.compile(
    r"\b(?:how many|number of) ((?:(?!\b(?:is|are|was|were|do|does|did|can|could|have|has|will|in"
    r"|on|at|of|with|there|you)\b)[\w'-]+ ?){1,4})",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"(?:none|nothing|no \w+(?: \w+)?|zero)[.!]?$|.{0,40}\bthere (?:are|is) (?:no|none)\b"
    r"|no (?:\w+ ){1,3}(?:is|are|can be|appears?) "
    r"(?:visible|seen|shown|present|depicted|there|in|on|here)\b",
    re.IGNORECASE,
)
_ASKS_FOR_YEAR = re.compile(r"\b(?:what|which|the)(?: \w+)? year\b(?!s)|哪一?年", re.IGNORECASE)
_GOVERNED = re.compile(
    r"\b(?:in|on|(?<!total )of|by|at|from|since|until|during|for|to|than|with|among|no\.|number) "
    r"(?:the |all |these |those )?$",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\bnot|n't|\bnever|\brather than|\binstead of) $", re.IGNORECASE)
_SYMBOL = re.compile(r"(?<![\w'])(?:[A-Z]{1,3}|[a-z])(?![\w'])")
_NO_SYMBOLS = frozenset(("A", "I", "a", "US", "UK", "EU"))
_DEFINES = re.compile(r"(?<![\w'])([A-Z]{1,3}|[a-z]) ?[=≈] ?$")
_GOES_ON = re.compile(r" ?[-+*/×÷^=≈(]")
_OR = re.compile(r",? or\b", re.IGNORECASE)
_NOT = re.compile(r"\bnot |n't |\bwithout ", re.IGNORECASE)
_LEADING = re.compile(r"\S+\. (?=[A-Z])")
_FEW_SENTENCES = 2  # A longer text mentions numbers on its way.


def asks_for_share(question: str) -> bool:
    """Return whether a question asks for a percentage, share or fraction: 0.12 means 12% then."""
    return _SHARE.search(question) is not None


def whole_number(text: str, question: str = "") -> Number | None:
    """Return the number that a plain text consists of, but for words like "about"; else None."""
    text = text.strip(" \"'()[]{}<;!?").rstrip(",.>")
    if _HALF.fullmatch(text):
        return _as_share(Number(0.5, "", Decimal("0.5")), question)
    mentions = number_mentions(text, counts=_HOW_MANY.search(question) is not None)
    if len(mentions) != 1 or mentions[0].number is None:
        return None
    around = text[: mentions[0].start] + text[mentions[0].end :]
    if not _AROUND_WHOLE.fullmatch("".join(around.split())):
        return None
    return _as_share(mentions[0].number, question)


def read_number(text: str, question: str = "", *, marked: bool = False) -> Number | None:
    """Return the one number that a final answer states, or None.

    Where several are mentioned, those that the question mentions too do not count; then the one
    that is said of what the question counts, the total of all others, or the one that the last
    sentence states after "is" or "=". A year where a year is asked for. To "how many", "none" is 0.

    Args:
        text: A final answer, plain.
        question: What was asked.
        marked: Whether the output marks this text as its answer, so that it begins with it.
    """
    if _IN_BRACKETS.fullmatch(text) and _OF_ACCOUNTS.search(question):
        return None  # There it may be negative.
    if _BRACKETED.search(text) and _says_two(text, question):
        return None
    lines = text.split("\n")
    if labelled := _labelled(lines, question):
        return labelled
    whole = {n for line in (lines[0], lines[-1]) if (n := whole_number(line, question))}
    if whole:
        return whole.pop() if len(whole) == 1 else None
    if marked and (leading := _LEADING.match(text)) and (n := whole_number(leading[0], question)):
        return n
    counts = _HOW_MANY.search(question) is not None
    said = [_without_brackets(sentence) for sentence in sentences(text)]
    mentions = [number_mentions(sentence, counts=counts) for sentence in said]
    if not any(mentions):
        return Number(0.0) if counts and _NONE.match(text) else None
    if _ASKS_FOR_YEAR.search(question):
        mentions = [[one for one in found if _may_be_year(one.number)] for found in mentions]
    asked = _Asked(question)
    if asked.denied(said):
        return Number(0.0)
    denied = _NOT.split(question, maxsplit=1)[1:]
    if denied and not _NOT.search(text) and {*content_words(denied[0])} & {*content_words(text)}:
        return None  # What is red was not asked for.
    number = _defined(said, mentions, question)
    if number is None and len(said) <= _FEW_SENTENCES:
        all_said = [
            (one, sentence) for found, sentence in zip(mentions, said, strict=True) for one in found
        ]
        number = asked.only(all_said) or asked.total(all_said)
    if number is None and (len(said) == 1 or _CONCLUSION.match(said[-1])):
        last = [(mention, said[-1]) for mention in mentions[-1]]
        number = asked.only(last) or _stated(said[-1], mentions[-1])
    return number and _as_share(number, question)


def _says_two(text: str, question: str) -> bool:
    """Return whether a number is followed by another one in brackets: "four (5)"."""
    outside, _, inside = text.rstrip(".").removesuffix(")").partition("(")
    first, second = whole_number(outside), whole_number(inside)
    if not first or not second or first.unit or second.unit or first.value == second.value:
        return False
    asked = {mention.number.value for mention in number_mentions(question) if mention.number}
    return not (asked & {first.value, second.value} or _ASKS_FOR_YEAR.search(question))


def _labelled(lines: Sequence[str], question: str) -> Number | None:
    """Return the number of the one line whose label the question names ("Tax: $0.80")."""
    labels = [line.partition(":") for line in lines]
    if len(lines) < 2 or not all(map(whole_number, (value for _, _, value in labels))):
        return None
    asked = set(content_words(question))
    named = [value for label, _, value in labels if asked.issuperset(content_words(label) or "-")]
    return whole_number(named[0], question) if len(named) == 1 else None


def _without_brackets(sentence: str) -> str:
    """Return the sentence without what it adds in brackets, if a number is left."""
    rest = _BRACKETS.sub("", sentence)
    return rest if number_mentions(rest) else sentence


def _may_be_year(number: Number | None) -> bool:
    """Return whether a number may name a year; what was not understood may."""
    if number is None:
        return True
    return number.value.is_integer() and 1000 <= number.value <= 2100 and not number.unit


class _Asked:
    """What a question says of numbers: those that it mentions itself, and what it counts."""

    def __init__(self, question: str) -> None:
        self._text = question.casefold()
        self._values = {one.number.value for one in number_mentions(question) if one.number}
        counted = _COUNTED.search(question)
        self._counted = set(content_words(counted[1])) if counted else set()

    def only(self, said: Sequence[tuple[NumberMention, str]]) -> Number | None:
        """Return the number of all mentions, or of the new ones, or of the one that is counted.

        None if they differ or are not all understood.
        """
        fresh = [
            (mention, sentence)
            for mention, sentence in said
            if mention.number or sentence[mention.start : mention.end].casefold() not in self._text
            if not _before(_DENIED, mention, sentence)
        ]
        if any(mention.number is None for mention, _ in fresh):
            return None
        if any(self._counts_groups(mention, sentence) for mention, sentence in fresh):
            return None
        numbers = [mention.number for mention, _ in fresh if mention.number]
        nouns = {_noun(mention, sentence) for mention, sentence in fresh} - {""}
        if self._counted and len(nouns) > 1 and not nouns & self._counted:
            return None  # one man and one woman
        new = [number for number in numbers if number.value not in self._values]
        for candidates in (numbers, new, self._said_of_counted(fresh)):
            if len({number.value for number in candidates}) == 1:
                return max(candidates, key=lambda number: len(number.unit))
        return None

    def denied(self, said: Sequence[str]) -> bool:
        """Return whether a text says that there is none of what is counted ("no people")."""
        after = [
            content_words(sentence[no.end() : no.end() + 60])[: len(self._counted)]
            for sentence in said
            for no in _NO.finditer(sentence)
        ]
        return bool(self._counted) and any(set(words) == self._counted for words in after)

    def _counts_groups(self, mention: NumberMention, sentence: str) -> bool:
        """Return whether a number counts groups of what is counted ("three pairs of shoes")."""
        found = _GROUPS.match(sentence, mention.end)
        named = [set(content_words(word)) for word in found.groups()] if found else []
        return bool(named) and not named[0] & self._counted and bool(named[1] & self._counted)

    def _said_of_counted(self, said: Sequence[tuple[NumberMention, str]]) -> list[Number]:
        """Return the number right before what is counted, if all others are said of other things.

        None where another one lacks a noun ("3 cars here and 4 there") or is said of what the
        question restricts the count by, and none of "rows of 5 cars" or "of the 5 cars".
        """
        found: list[Number] = []
        restricting = set(content_words(self._text)) - self._counted
        for mention, sentence in said:
            after = content_words(sentence[mention.end : mention.end + 60].split(",")[0])
            governed = _before(_GOVERNED, mention, sentence)
            if self._counted and set(after[: len(self._counted)]) == self._counted:
                if governed or mention.number is None:
                    return []
                found.append(mention.number)
            elif not governed and (restricting.intersection(after) or not _noun(mention, sentence)):
                return []
        return found if len(found) == 1 else []

    def total(self, said: Sequence[tuple[NumberMention, str]]) -> Number | None:
        """Return the first or last number if it is the sum of all the others, which are its parts.

        Not where the question has a word that tells one part from the others: it may ask for it.
        """
        numbers = [mention.number for mention, _ in said]
        if len(numbers) < 3 or not all(number and not number.unit for number in numbers):
            return None
        values = [Fraction(number.value) for number in numbers if number]
        for index in (0, -1):
            if 2 * values[index] == sum(values):
                parts = [
                    set(content_words(sentence[mention.end : mention.end + 40].split(",")[0])[:2])
                    for position, (mention, sentence) in enumerate(said)
                    if position != index % len(said)
                ]
                telling = set[str]().union(*parts) - parts[0].intersection(*parts[1:])
                named = any(word.isalpha() for part in parts for word in part)
                asked = telling.intersection(content_words(self._text)) - self._counted
                return numbers[index] if named and not asked else None
        return None


def _noun(mention: NumberMention, sentence: str) -> str:
    """Return the word after a number, in the singular, if it may name what is counted; else ""."""
    following = tokens(sentence[mention.end : mention.end + 30])[:1]
    words = [word for one in following if one not in PLACES for word in content_words(one)]
    return "".join(words)


def _before(pattern: re.Pattern[str], mention: NumberMention, sentence: str) -> bool:
    """Return whether a pattern that ends in "$" stands right before a number."""
    return pattern.search(sentence, max(0, mention.start - 30), mention.start) is not None


def _defined(
    said: Sequence[str], mentions: Sequence[Sequence[NumberMention]], question: str
) -> Number | None:
    """Return the number that the one symbol of a question is said to equal: "BC = 5, AB = 10"."""
    asked = {symbol for symbol in _SYMBOL.findall(question) if symbol not in _NO_SYMBOLS}
    values = {
        None if _OR.match(sentence, mention.end) else mention.number
        for sentence, found in zip(said, mentions, strict=True)
        for mention in found
        if (symbol := _DEFINES.search(sentence, max(0, mention.start - 30), mention.start))
        and symbol[1] in asked
        and not _GOES_ON.match(sentence, mention.end)
    }
    return values.pop() if len(asked) == len(values) == 1 else None


def _stated(sentence: str, mentions: Sequence[NumberMention]) -> Number | None:
    """Return the last number of a sentence, if it alone follows "=", or else "is"."""
    for sign in (_EQUALS, _PREDICATE):
        stated = [m for m in mentions if sign.search(sentence, max(0, m.start - 40), m.start)]
        if len(stated) == 1 and stated[0] is mentions[-1]:
            return stated[0].number
    return None


def _as_share(number: Number, question: str) -> Number:
    """Return the number as a percentage, if it is a bare fraction and a share is asked for."""
    if number.unit == "" and 0 < abs(number.value) < 1 and asks_for_share(question):
        exact = number.exact and multiply(number.exact, 100)
        return Number(round(number.value * 100, 10), "%", exact)
    return number


def format_number(value: float, unit: str = "", exact: Decimal | None = None) -> str:
    """Return a number as people write it: "1234", "12%", "$5000000", "9 kg".

    With the digits of `exact`; without it with 15 at most after cutting decimals off, which is what
    a float holds of what was written. No zeros at the end of decimals.
    """
    if exact is None:
        exact = Decimal(repr(value))
        if not value.is_integer() and _TINY <= abs(value) < _EXACT:
            last = Decimal(1).scaleb(min(exact.adjusted() - 14, 0))
            exact = exact.quantize(last, ROUND_DOWN)
    digits, letter, exponent = f"{exact:e}".partition("e")
    if not exact or _TINY <= abs(exact) < _EXACT:
        digits, letter, exponent = f"{exact or exact.copy_abs():f}", "", ""  # Never "-0".
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    digits += letter + exponent
    if unit in PREFIXED:
        return f"-{unit}{digits[1:]}" if digits.startswith("-") else unit + digits
    return digits + unit if unit in ("", "%") else f"{digits} {unit}"
