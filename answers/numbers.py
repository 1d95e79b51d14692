"""Read numbers: digits, words, scales, percentages, units."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_DOWN, Context, Decimal
from itertools import pairwise

from .plain_text import sentences, word_list

_DIGITS = (
    r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?(?![\d.])|\d{1,3}(?:\.\d{3})+,\d+"  # 1.234.567,8
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)(?:\.\d+)?"  # 12,34,567
    r"|\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)(?:\.\d+)?"  # 1,234 and 1 234
    r"|\d+(?:\.\d+)?|\.\d+"
)
_EUROPEAN = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}(?:\.\d{3})+,\d+")
_ONES = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
_WORDS = {word: value for value, word in enumerate(_ONES)} | {
    word: 10 * tens for tens, word in enumerate(_TENS, 2)
}
_FACTOR_WORDS = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_SCALES = {
    "hundred": 1e2, "thousand": 1e3, "k": 1e3, "K": 1e3, "lakh": 1e5, "million": 1e6, "mn": 1e6,
    "mln": 1e6, "mio": 1e6, "M": 1e6, "crore": 1e7, "billion": 1e9, "bn": 1e9, "B": 1e9,
    "trillion": 1e12, "tn": 1e12, "T": 1e12,
}  # fmt: skip
_UNITS = {
    spelling: unit
    for unit, spellings in {
        "%": "% percent pct percentage",
        "$": "$ us$ usd dollar dollars",
        "€": "€ eur euro euros",
        "£": "£ gbp",
        "¥": "¥ jpy yen",
        "₹": "₹ rs inr rupee rupees",
        "kg": "kg kgs kilogram kilograms",
        "g": "g gram grams",
        "lb": "lb lbs",
        "km": "km kilometer kilometers kilometre kilometres",
        "m": "m meter meters metre metres",
        "cm": "cm centimeter centimeters centimetre centimetres",
        "mm": "mm millimeter millimeters millimetre millimetres",
        "mi": "mi mile miles",
        "ft": "ft foot feet",
        "in": "inch inches",
        "km/h": "km/h kmh kph",
        "m/s": "m/s",
        "mph": "mph",
        "s": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "h hr hrs hour hours",
        "days": "day days",
        "weeks": "week weeks",
        "months": "month months",
        "years": "year years yr yrs",
        "°": "° degree degrees",
        "°C": "°c celsius",
        "°F": "°f fahrenheit",
        "times": "x times",
    }.items()
    for spelling in spellings.split()
}

_WORD = "|".join([*_WORDS, *_FACTOR_WORDS])
_SIGN = r"(?:(?<![\w)])[-+](?=[\d.$€£¥₹])|\b(?:minus|negative) )?"
_CURRENCY = r"(?:(?:\bUS ?)?[$€£¥₹] ?|\b(?:USD|EUR|GBP|INR|Rs\.?) )?"
_NUMBER = re.compile(
    rf"(?P<sign>{_SIGN})(?P<currency>{_CURRENCY})(?P<inner>(?<=[$€£¥₹])-(?=[\d.]))?(?:"
    # Not within a word, a list without blanks, a date, a time, or a name (COVID-19).
    r"(?<![\w^.])(?<!\d[,/:])(?<![A-Za-z]-)"
    rf"(?:(?P<over>\d{{1,3}})/(?P<under>\d{{1,3}})(?![/\d])|(?P<digits>{_DIGITS}))"
    r"(?:e(?P<e>[-+]?\d{1,3})| ?[×x*] ?10\^\{?(?P<power>-?\d{1,3})\}?)?"
    rf"|\b(?P<words>(?:{_WORD})(?:(?:[ -]| and )(?:{_WORD}))*)\b(?!-\w))",
    re.IGNORECASE,
)
_SCALE = re.compile(
    r" ?((?i:hundred|thousand|million|billion|trillion|mn|mln|mio|bn|tn|lakh|crore)|[kKMB]"
    r"|(?<=\d)T)(?!\w)"
)
# Letters beside a number make it a code (flight BA 117, house 12 M), unless they are a unit.
_CODE_BEFORE = re.compile(r"(?<![\w'.-])[A-Z]{1,4}[ /-]?$")
_CODE_AFTER = re.compile(r" ?(?:[A-Z]{1,4}|(?<= )[b-z])(?![\w'])")
# Digits that are no number of their own beside a number make it part of a code: (555) 123-4567.
_GROUP_BEFORE = re.compile(r"\d[ ()/-]{1,3}$")
_GROUP_AFTER = re.compile(r"[ ()/-]{1,3}\d")
_MILLIONS = re.compile(r"m\b")  # After a currency only: "$5m"; else it is metres.
_UNIT = re.compile(
    r" ?(%|[Pp]er ?cent\b|[Pp]ercentage points?\b|km/h\b|m/s\b|°[CF]?|[$€£¥₹]|[A-Za-z]+\b)"
)
_DECADE = re.compile(r"(?<=0)'?s\b")
# What may not follow a number: 1_2, 3:4, 1990s, 2nd, 50+, two thirds, two and a half.
_BROKEN = re.compile(
    r"[\w^]|[,.:/]\d|\+|(?:[ -]| and a )(?:half|halves|third|quarter|fourth|fifth|tenth)s?\b",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:\b(?:more|less|fewer|greater|higher|lower|larger|smaller|other) than|\b(?:over|above|under"
    r"|below|at least|at most|up to|nearly|almost|exceeds?|exceeding|beyond)|[<>≤≥]) ?$",
    re.IGNORECASE,
)
_LEADING_ZERO = re.compile(r"0\d")
_RANGE = re.compile(r" ?(?:-|to|~|±) ?", re.IGNORECASE)
# "One" is a number in "there is one", "one dog"; in "the left one" or "one of them" it is none.
_ONE_COUNTS_AFTER = re.compile(
    r"(?:^|[=:(]|\b(?:is|are|was|were|be|only|just|exactly|about|see|shows?|has|have|contains?"
    r"|total|total of|equals?|minus|there's))[ (]*$",
    re.IGNORECASE,
)
_ONE_IS_PRONOUN_BEFORE = re.compile(
    r" (?:of|can|could|may|might|must|should|would|that|which|who)\b", re.IGNORECASE
)
_PREFIXED = ("$", "€", "£", "¥", "₹")
_EXACT = 2**53  # From here on a float no longer holds every whole number.
_TINY = 1e-12  # Below, decimals are shown as 1e-13.
_NEAR = 30  # How many characters before a number can tell what it is.


@dataclass(frozen=True, slots=True)
class Number:
    """A number and its unit.

    Attributes:
        value: The number, which is what compares.
        unit: "" where none was written.
        exact: All the digits that were written; None where they are no decimal (1/3).
    """

    value: float
    unit: str = ""
    exact: Decimal | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NumberMention:
    """A number in a text, at text[start:end]."""

    number: Number
    start: int
    end: int


def number_mentions(text: str) -> list[NumberMention]:
    """The numbers of a plain text that are exact values, in order.

    No bounds ("more than 5"), ranges ("5 to 7"), ratios, dates, ordinals, or parts of names and
    codes ("BA 117", "(555) 123-4567", "12B", "007").
    """
    found = [mention for match in _NUMBER.finditer(text) if (mention := _mention(text, match))]
    in_range = {
        mention
        for first, second in pairwise(found)
        if _RANGE.fullmatch(text, first.end, second.start)
        for mention in (first, second)
    }
    exact = [mention for mention in found if mention not in in_range]
    starts, ends = ({getattr(m, side) for m in exact} for side in ("start", "end"))
    return [mention for mention in exact if not _in_digit_groups(text, mention, starts, ends)]


def _in_digit_groups(text: str, mention: NumberMention, starts: set[int], ends: set[int]) -> bool:
    """Whether digits that belong to no number (of those starts and ends) stand beside this one."""
    near = max(0, mention.start - 4)
    before = _GROUP_BEFORE.search(text[near : mention.start])
    if before and near + before.start() + 1 not in ends:
        return True
    after = _GROUP_AFTER.match(text, mention.end)
    return after is not None and starts.isdisjoint(range(mention.end, after.end()))


def _mention(text: str, match: re.Match[str]) -> NumberMention | None:
    """The number at a match, with its scale and unit; None if it is not an exact value."""
    before = text[max(0, match.start() - _NEAR) : match.start()]
    value = _spelled_value(match["words"].lower()) if match["words"] else _digits_value(match)
    exact = Decimal(value or 0) if match["words"] else _written_digits(match)
    end = match.end()
    if value is None or _BOUND.search(before) or _DECADE.match(text, end):
        return None
    if (match["words"] or "").lower() == "one" and not (
        _ONE_COUNTS_AFTER.search(before) and not _ONE_IS_PRONOUN_BEFORE.match(text, end)
    ):
        return None
    currency = _unit(match["currency"])
    scale = _SCALE.match(text, end)
    if scale:
        word = scale[1] if len(scale[1]) == 1 else scale[1].lower()
        value, end = _scaled(value, _SCALES[word]), scale.end()
        exact = exact and multiply(exact, Decimal(_SCALES[word]))
    elif currency and _MILLIONS.match(text, end):
        value, end = _scaled(value, 1e6), end + 1
        exact = exact and multiply(exact, Decimal("1e6"))
    unit = ""
    if (written := _UNIT.match(text, end)) and (unit := _unit(written[1])):
        end = written.end()
    if _BROKEN.match(text, end) or not math.isfinite(value):
        return None
    if scale and not _is_scale(scale, match["digits"] or "", currency or unit):
        return None
    if not (currency or unit) and not match["words"]:
        coded_after = not scale and _CODE_AFTER.match(text, end)
        if coded_after or _CODE_BEFORE.search(before):
            return None
    signs = (match["sign"].strip().lower(), match["inner"])
    if not {"-", "minus", "negative"}.isdisjoint(signs):
        value = 0.0 - value  # Never the float -0.0.
        exact = exact and exact.copy_negate()
    return NumberMention(Number(value, currency or unit, exact), match.start(), end)


def _is_scale(scale: re.Match[str], digits: str, unit: str) -> bool:
    """Whether letters multiply the number before them.

    A single one does with a currency ("$12 B") or attached to a decimal ("1.2M"); "k" attached to
    any number. "12B" may be a room.
    """
    if len(scale[1]) > 1 or unit in _PREFIXED:
        return True
    return not scale[0].startswith(" ") and (scale[1] in "kK" or "." in digits)


def _scaled(value: float, scale: float) -> float:
    """The product in decimals: 2.3 million is 2300000, not 2299999.9999999995."""
    return float(Decimal(repr(value)) * Decimal(scale))


def multiply(a: Decimal, b: Decimal) -> Decimal:
    """The product with all its digits, however many."""
    return Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN).multiply(a, b)


def _unit(written: str) -> str:
    """The unit that a word or sign stands for; "" for any other word."""
    written = written.strip(" .")
    if written.lower().startswith("per"):
        return "%"
    return _UNITS.get(written if len(written) == 1 else written.lower(), "")


def _digits_value(match: re.Match[str]) -> float | None:
    """The value of digits; None where they are no quantity or more than a float can hold."""
    if any(_LEADING_ZERO.match(match[part] or "") for part in ("over", "under", "digits")):
        return None
    if match["under"]:
        return int(match["over"]) / int(match["under"]) if int(match["under"]) else None
    value = float(_decimal_text(match))
    return value if match["e"] or match["power"] or value < _EXACT else None


def _written_digits(match: re.Match[str]) -> Decimal | None:
    """The value of digits with all of them; None of a fraction."""
    return None if match["under"] else Decimal(_decimal_text(match))


def _decimal_text(match: re.Match[str]) -> str:
    """Digits in the form that Python reads: "1234.5e0" for "1.234,5"."""
    digits = match["digits"].replace(" ", "")
    if _EUROPEAN.fullmatch(digits):
        digits = digits.replace(".", "").replace(",", ".")
    return f"{digits.replace(',', '')}e{match['e'] or match['power'] or 0}"


def _spelled_value(words: str) -> float | None:
    """The value of number words, or None if they are not one number ("two and three")."""
    total = part = 0  # `part` is what the next "thousand" or "million" multiplies.
    for word in re.split(r"[ -]+", words):
        if word == "and":
            continue
        if factor := _FACTOR_WORDS.get(word):
            if not part or (factor >= 1000 and 0 < total <= factor):
                return None
            part *= factor
            if factor >= 1000:
                total, part = total + part, 0
        else:
            value = _WORDS[word]
            room = 100 if value >= 10 else 10  # 20 goes after a hundred, 3 after a twenty.
            if part % room or (value < 10 and part % 100 == 10) or (not value and words != word):
                return None
            part += value
    return float(total + part)


def format_number(value: float, unit: str = "") -> str:
    """A number as people write it: "1234", "12%", "$5000000", "9 kg".

    With 15 digits at most after cutting decimals off, which is what a float holds of what was
    written; more would be digits that nobody wrote.
    """
    digits = repr(value)
    if value.is_integer() and abs(value) < _EXACT:
        digits = f"{value:.0f}"
    elif _TINY <= abs(value) < _EXACT:
        exact = Decimal(digits)
        last = Decimal(1).scaleb(min(exact.adjusted() - 14, 0))
        digits = f"{exact.quantize(last, ROUND_DOWN).normalize():f}"
    return _with_unit(digits, unit)


def format_exactly(value: Decimal, unit: str = "") -> str:
    """The same of a decimal, with all of its digits but zeros at the end of decimals."""
    size = value.copy_abs()
    if not size:
        return _with_unit("0", unit)
    digits, letter, exponent = f"{value:e}".partition("e")
    if _TINY <= size < _EXACT:
        digits, letter, exponent = f"{value:f}", "", ""
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return _with_unit(digits + letter + exponent, unit)


def _with_unit(digits: str, unit: str) -> str:
    """A number's digits and its unit, on the side where people write it."""
    if unit in _PREFIXED:
        return f"-{unit}{digits[1:]}" if digits.startswith("-") else unit + digits
    return digits + unit if unit in ("", "%") else f"{digits} {unit}"


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
