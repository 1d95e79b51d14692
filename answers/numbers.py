"""Read numbers: a grammar of digits, number words, fractions, scales, signs and units.

A number counts only where all of it is understood: its separators, its unit, and what is attached
to it on both sides. Any other span that looks like one (a range, a bound, a date, an ordinal, a
part of a name or a code) is kept without a number, so that whoever reads a sentence knows that it
holds more than was understood.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_DOWN, Context, Decimal
from fractions import Fraction

from .plain_text import content_words, sentences, word_list

_ONES = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
_WORDS = {word: value for value, word in enumerate(_ONES)} | {
    word: 10 * tens for tens, word in enumerate(_TENS, 2)
}
_FACTORS = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "eighth": 8, "tenth": 10}
_HAN_DIGITS = {"零": 0, "〇": 0, "两": 2} | {
    digit: n for n, digit in enumerate("一二三四五六七八九", 1)
}
_HAN_FACTORS = {"十": 10, "百": 100, "千": 10**3}
_HAN_SCALES = {"万": 10**4, "亿": 10**8}
_SCALES = {
    "hundred": 100, "thousand": 10**3, "k": 10**3, "K": 10**3, "lakh": 10**5, "million": 10**6,
    "mn": 10**6, "mln": 10**6, "mio": 10**6, "M": 10**6, "m": 10**6, "MM": 10**6, "crore": 10**7,
    "billion": 10**9, "bn": 10**9, "B": 10**9, "trillion": 10**12, "tn": 10**12, "T": 10**12,
    "dozen": 12, "千": 10**3, **_HAN_SCALES,
}  # fmt: skip

_CURRENCIES = {
    "$": "$ us$ usd dollar dollars",
    "€": "€ eur euro euros",
    "£": "£ gbp",
    "¥": "¥ jpy yen cny rmb yuan 元",
    "₹": "₹ rs inr rupee rupees",
}
_MEASURES = {
    "%": "% percent pct percentage",
    "kg": "kg kgs kilo kilos kilogram kilograms",
    "g": "g gram grams",
    "mg": "mg milligram milligrams",
    "t": "t tonne tonnes",
    "lb": "lb lbs pound pounds",
    "oz": "oz ounce ounces",
    "km": "km kilometer kilometers kilometre kilometres",
    "m": "m meter meters metre metres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "mi": "mi mile miles",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "in": "inch inches",
    "l": "l liter liters litre litres",
    "ml": "ml milliliter milliliters millilitre millilitres",
    "cup": "cup cups",
    "tbsp": "tbsp tablespoon tablespoons",
    "tsp": "tsp teaspoon teaspoons",
    "km/h": "kmh kph",
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
}
_UNITS = {
    spelling: unit
    for unit, spellings in (_CURRENCIES | _MEASURES).items()
    for spelling in spellings.split()
}
# In these units a letter means something else in another case: milli and mega, bit and byte.
_SYMBOLS = frozenset(
    prefix + base
    for bases, prefixes in {
        "bar Pa": "h k m M",
        "Hz W V eV Wh": "k M G T m",
        "J cal": "k M",
        "A Ah": "m",
        "B b": "k K M G T",
    }.items()
    for base in bases.split()
    for prefix in prefixes.split()
) | {"bar", "Pa", "Hz", "eV", "Wh", "dB", "ha"}
_PREFIXED = frozenset(_CURRENCIES)  # Units that people write before a number.
_EXACT = 2**53  # From here on a float no longer holds every whole number.
_TINY = 1e-12  # Below, decimals are shown as 1e-13.
_NEAR = 30  # How many characters before a number can tell what it is.
_DIGITS_TRIED = 400  # More in a row are no number that anybody reads.

_WORD = rf"(?:{'|'.join([*_WORDS, *_FACTORS])})"
_PART = rf"(?:{'|'.join(_PARTS)}|halve)s?"
_HAN = f"[{''.join(_HAN_DIGITS)}十百千万亿]"
_START = re.compile(
    r"(?P<digits>(?<![\w.,])[.,]\d(?:[\d.,]*\d)?|\d(?:[\d.,]*\d)?)"
    rf"|\b(?P<words>{_WORD}(?:(?:[ -]| and |(?<=thousand), |(?<=million), ){_WORD}\b(?![ -]{_PART}\b))*"
    rf"(?: point(?: (?:{'|'.join(_ONES[:10])})\b)+)?)\b"
    rf"|(?:^|(?<=[有是为共约:\s]))(?P<han>{_HAN}+半?)",
    re.IGNORECASE,
)
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+(?:\.\d+)?(?![\d]|[.,]\d)")
_GROUPED = re.compile(r"\d{1,3}(?:(,)\d{3})+|\d{1,2}(?:(,)\d{2})+,\d{3}|\d{1,3}(?:(\.)\d{3})+")
_UNDER = re.compile(r"/(\d{1,3})(?![\d/])")
_MIXED = re.compile(r" (\d{1,3})/(\d{1,3})(?![\d/])")
_AND_PART = re.compile(rf" (?:and )?(?:an? |one[ -])({_PART})\b", re.IGNORECASE)
_OF_PARTS = re.compile(rf"[ -]({_PART})\b", re.IGNORECASE)
_EXPONENT = re.compile(
    r"e([-+]?\d{1,3})(?!\w)| ?[×x*·⋅] ?10\^\{?([-+]?\d{1,3})\}?(?!\w)", re.IGNORECASE
)
_POWER_OF_TEN = re.compile(r"\^\{?([-+]?\d{1,3})\}?(?!\w)")
_SCALE = re.compile(
    r" ?((?i:hundred|thousand|million|billion|trillion|dozen|mn|mln|mio|bn|tn|lakh|crore)"
    r"|MM|[kKMBTm])(?!\w)| ?([千万亿])"
)
_PERCENT = re.compile(r" ?(?:%|(?:per ?cent|pct|percentage)\b)(?: points?\b)?", re.IGNORECASE)
_UNIT = re.compile(
    r"[ -]?(?P<power>(?:square|sq\.?|cubic|cu\.?) )?(?P<name>US\$|[$€£¥₹元]|°[CF]?|[A-Za-z]+)"
    r"(?P<exponent>\^?[23])?(?![A-Za-z\d^])(?:(?:/| per )(?P<per>[A-Za-z]+)(?![\w^/]))?"
)
_BEFORE = re.compile(
    r"(?P<sign>(?<![\w)])[-+]|\b(?:minus|negative) )?"
    r"(?P<currency>\bUS ?\$ ?|[$€£¥₹] ?|\b(?:USD|EUR|GBP|INR|JPY|CNY|RMB|Rs\.?) )?"
    r"(?P<inner>(?<=[$€£¥₹])[-+])?$",
    re.IGNORECASE,
)
_CURRENCY_NEXT = re.compile(r" ?(?:[$€£]|(?:USD|EUR|GBP|dollars|euros)\b)")

# What makes a span no exact value: what stands before or after it.
_ATTACHED_BEFORE = re.compile(r"(?:[A-Za-z_^]|\d[,/:]|[A-Za-z0-9]-|[A-Za-z\d]\.|^- )$")
_ATTACHED_AFTER = re.compile(
    rf"[A-Za-z_^\d/]|'[A-Za-z]|[.:,]\d|\+(?! )|-(?=[A-Za-z\d])|[ -](?:half|halves|(?:hundred|thousand|million)ths?)\b"
    rf"|(?: and| point)\W*$|{_HAN}|个?半"
)
_BOUND_BEFORE = re.compile(
    r"(?:\b(?:more|less|fewer|greater|higher|lower|larger|smaller|other) than(?: or equal to)?|\b(?:over|above|under"
    r"|below|at least|at most|up to|nearly|almost|exceeds?|exceeding|beyond)|[<≤≥]=?|(?<![=-])>=?"
    r"|超过|至少|不到) ?$",
    re.IGNORECASE,
)
_BOUND_AFTER = re.compile(r" (?:or|and) (?:more|less|fewer|above|below|over|under)\b|多|以上")
_VARIABLE = re.compile(r"\b[a-z] ?= ?$")  # In "n = 3k" the k is no thousand.
_IN_ACCOUNTS = re.compile(r"(?:[$€£¥₹]|\b[A-Z]{3}) ?\($|\([$€£¥₹]$")  # "USD (5.00)" is negative.
_DECADE = re.compile(r"'?s\b")
_TIME = re.compile(r" ?[ap]\.?m\b| ?o'clock\b|点", re.IGNORECASE)
# Letters beside a number make it a code (flight BA 117, house 12 M), unless they are a unit.
_CODE_BEFORE = re.compile(r"(?<![\w'.-])[A-Z]{1,4}[ /-]?$|第$")
_CODE_AFTER = re.compile(r" ?(?:[A-Z]{1,4}|(?<= )[b-z])(?![\w'])| a$")
_RANGE = re.compile(r" ?(?:-|~|±|/|\bto\b|\bor\b) ?", re.IGNORECASE)
_BESIDE = re.compile(r"[ ()/-]{1,3}")
# "One" is a number in "there is one", "one dog"; in "the left one" or "one of them" it is none.
_ONE_COUNTS_AFTER = re.compile(
    r"(?:^|[=:(→]|\b(?:is|are|was|were|be|only|just|exactly|about|see|shows?|has|have|contains?"
    r"|total|total of|equals?|minus|there's))[ (]*$",
    re.IGNORECASE,
)
_ONE_IS_PRONOUN_BEFORE = re.compile(
    r" (?:of|can|could|may|might|must|should|would|that|which|who)\b", re.IGNORECASE
)
_HAN_COUNTED = re.compile(
    r"$|[\s,.;:!?%元]|[个只条张名位人辆头匹本座棵朵块分岁年层件种颗台架艘把双对次]"
)


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
    """A span text[start:end] that looks like a number; `number` is None if it is no exact value."""

    number: Number | None
    start: int
    end: int


def number_mentions(text: str, *, counts: bool = False) -> list[NumberMention]:
    """Return the numbers of a plain text in order, and the spans that only look like some.

    Args:
        text: Plain text.
        counts: Whether the text tells how many there are: then "12M" is twelve million, no code.
    """
    found: list[NumberMention] = []
    position = 0
    while start := _START.search(text, position):
        mention = _mention(text, start, counts=counts)
        position = max(start.end(), mention.end if mention else 0)
        if mention and found and _is_one_span(text, found[-1], mention):
            found[-1] = NumberMention(None, found[-1].start, mention.end)
        elif mention:
            found.append(mention)
    return found


def _is_one_span(text: str, first: NumberMention, second: NumberMention) -> bool:
    """Return whether two neighbours are a range, or groups of digits of a code."""
    if second.start - first.end > 5:
        return False
    if _RANGE.fullmatch(text, first.end, second.start):
        return True
    if not _BESIDE.fullmatch(text, first.end, second.start):
        return False
    understood = first.number is not None and second.number is not None
    return not understood or (
        text[first.end : second.start] == " " and first.number != second.number
    )


def _mention(text: str, start: re.Match[str], *, counts: bool) -> NumberMention | None:
    """Return the number that begins at a match; None where the words there are no number at all."""
    before = text[max(0, start.start() - _NEAR) : start.start()]
    prefix = _BEFORE.search(before)
    assert prefix is not None  # noqa: S101  (it may be empty)
    lead = before[: prefix.start()]
    nothing = NumberMention(None, start.start() - len(prefix[0]), start.end())
    if start["digits"]:
        amount, end = _digits(text, start)
    elif start["words"]:
        if text.startswith("-", start.end()) or _ATTACHED_BEFORE.search(before):
            return None  # "one-way"
        amount, end = _spelled(text, start, counted=not before or before.endswith(("a ", "A ")))
    elif _HAN_COUNTED.match(text, start.end()):
        amount, end = _han(start["han"]), start.end()
    else:
        return None
    literal = text[start.start() : end]
    currency = _unit_named((prefix["currency"] or "").strip(" .").replace(" ", ""))
    scale = _SCALE.match(text, end)
    if scale and _is_scale(text, scale, literal, currency, counts=counts):
        factor = scale[1] or scale[2]
        factor = factor if len(factor) == 1 or factor == "MM" else factor.lower()
        amount, end = amount and _times(amount, _SCALES[factor]), scale.end()
    else:
        scale = None
    unit, end = _unit(text, end, currency)
    if amount is None and start["digits"] and (currency or unit):
        amount = _decimal_comma(literal)
    if (start["words"] or "").lower() == "one" and end == start.end():
        if not _ONE_COUNTS_AFTER.search(before) or _ONE_IS_PRONOUN_BEFORE.match(text, end):
            return None
    nothing = NumberMention(None, nothing.start, max(end, nothing.end))
    bare_digits = start["digits"] and not (currency or unit)
    if (
        amount is None
        or _ATTACHED_AFTER.match(text, end)
        or _BOUND_BEFORE.search(lead)
        or _BOUND_AFTER.match(text, end)
        or _TIME.match(text, start.end())
        or (start["digits"] and _ATTACHED_BEFORE.search(lead))
        or (bare_digits and not scale and _CODE_AFTER.match(text, end))
        or (bare_digits and _CODE_BEFORE.search(lead))
        or (scale and scale[1] and len(scale[1]) == 1 and _VARIABLE.search(lead))
        or (text.startswith(")", end) and _IN_ACCOUNTS.search(before))
        or (literal.endswith("0") and _DECADE.match(text, start.end()))
    ):
        return nothing
    if not {"-", "minus", "negative"}.isdisjoint(
        ((prefix["sign"] or "").strip().lower(), prefix["inner"])
    ):
        amount = amount.copy_negate() if isinstance(amount, Decimal) else -amount
    value = _float(amount)
    if not math.isfinite(value) or (abs(value) >= _EXACT and literal.isdecimal() and not scale):
        return nothing
    exact = amount if isinstance(amount, Decimal) else None
    return NumberMention(Number(value, currency or unit, exact), nothing.start, end)


def _digits(text: str, start: re.Match[str]) -> tuple[Decimal | Fraction | None, int]:
    """Return the value that digits begin with, and where it ends: "2 1/2", "1.5e6", "3/4"."""
    literal, end = start[0], start.end()
    if len(literal) > _DIGITS_TRIED:
        return None, end
    whole = literal.isdecimal() and not _leading_zero(literal)
    if literal.isdecimal() and (spaced := _SPACED.match(text, start.start())):
        return _literal(spaced[0].replace(" ", "")), spaced.end()
    amount: Decimal | Fraction | None = _literal(literal)
    if literal.isdecimal() and (under := _UNDER.match(text, end)):
        fits = whole and not _leading_zero(under[1]) and int(under[1]) and len(literal) <= 3
        return Fraction(int(literal), int(under[1])) if fits else None, under.end()
    if whole and (mixed := _MIXED.match(text, end)):
        proper = 0 < int(mixed[1]) < int(mixed[2])
        part = Fraction(int(mixed[1]), int(mixed[2])) if proper else None
        return part and int(literal) + part, mixed.end()
    if whole and (part_word := _AND_PART.match(text, end)):
        return int(literal) + _part(part_word[1]), part_word.end()
    if exponent := _EXPONENT.match(text, end):
        power = int(exponent[1] or exponent[2])
        return amount and _times(amount, Decimal(1).scaleb(power)), exponent.end()
    if literal == "10" and (power_of_ten := _POWER_OF_TEN.match(text, end)):
        return Decimal(1).scaleb(int(power_of_ten[1])), power_of_ten.end()
    return amount, end


def _literal(digits: str) -> Decimal | None:
    """Return the value of digits with separators, where these can mean but one thing."""
    signs = [sign for sign in digits if sign in ".,"]
    if _leading_zero(digits):
        return (
            Decimal(digits.replace(",", "."))
            if digits.startswith("0,") and len(signs) == 1
            else None
        )
    if not signs or (signs == ["."]):
        return Decimal(digits)
    whole, decimals = digits, ""
    if signs[-1] not in signs[:-1] and len(signs) > 1:
        whole, _, decimals = digits.rpartition(signs[-1])
    grouped = _GROUPED.fullmatch(whole)
    if not grouped or (grouped[2] and signs[-1] != "." and decimals):
        return None
    return Decimal(f"{whole.replace(',', '').replace('.', '')}.{decimals or 0}")


def _leading_zero(digits: str) -> bool:
    """Return whether digits start like a code ("007"), or with a comma as in "0,5"."""
    return len(digits) > 1 and digits[0] == "0" and digits[1] != "."


def _decimal_comma(digits: str) -> Decimal | None:
    """Return the value of "1,57" and ",89": beside a unit the comma can be nothing else."""
    whole, comma, decimals = digits.partition(",")
    if not comma or not decimals.isdecimal() or not (whole.isdecimal() or not whole):
        return None
    return None if _leading_zero(whole) else Decimal(f"{whole or 0}.{decimals}")


def _spelled(
    text: str, start: re.Match[str], *, counted: bool
) -> tuple[Decimal | Fraction | None, int]:
    """Return the value of number words, and where it ends: "two and a half", "one-fourth"."""
    words, end = start["words"].lower(), start.end()
    words, _, decimals = words.partition(" point ")
    value = _spelled_value(words, counted=counted)
    if decimals:
        digits = "".join(str(_WORDS[word]) for word in decimals.split())
        return (None if value is None else Decimal(f"{value}.{digits}")), end
    if value is not None and (part := _AND_PART.match(text, end)):
        return value + _part(part[1]), part.end()
    if value is not None and (parts := _OF_PARTS.match(text, end)):
        return (value * _part(parts[1]) if value < 10 else None), parts.end()
    return (None if value is None else Decimal(value)), end


def _part(word: str) -> Fraction:
    """Return the value of "half", "thirds"."""
    word = word.lower()
    return Fraction(1, 2 if word.startswith("hal") else _PARTS[word.removesuffix("s")])


def _spelled_value(words: str, *, counted: bool) -> int | None:
    """Return the value of number words, or None if they are not one number ("two and three").

    Args:
        words: The words, in lower case.
        counted: Whether a factor may come first, as in "a hundred".
    """
    total = part = 0  # `part` is what the next "thousand" or "million" multiplies.
    for index, word in enumerate(re.split(r"[ ,-]+", words)):
        if word == "and":
            continue
        if factor := _FACTORS.get(word):
            if not index and counted:
                part = 1
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
    return total + part


def _han(signs: str) -> Decimal | Fraction | None:
    """Return the value of a Chinese numeral; None of "two or three" (两三) and the like."""
    if signs == "一半":
        return Fraction(1, 2)
    total = part = 0
    digit: int | None = None
    for sign in signs:
        if sign in _HAN_DIGITS:
            if digit:
                return None
            digit = _HAN_DIGITS[sign]
        elif sign in _HAN_FACTORS:
            part += (1 if digit is None else digit) * _HAN_FACTORS[sign]
            digit = None
        elif sign in _HAN_SCALES:
            part += digit or 0
            if part:
                total, part, digit = total + part * _HAN_SCALES[sign], 0, None
            elif total:
                total *= _HAN_SCALES[sign]
            else:
                return None
        else:
            return None
    bare_tail = (
        digit and len(signs) > 1 and signs[-2] not in "零〇十" and signs[-2] not in _HAN_DIGITS
    )
    return None if bare_tail and signs[-2] != "十" else Decimal(total + part + (digit or 0))


def _is_scale(
    text: str, scale: re.Match[str], literal: str, currency: str, *, counts: bool
) -> bool:
    """Return whether letters multiply the number before them.

    Words do. A single letter does with a currency ("$12 B"), attached to a decimal ("1.2M"), before
    a unit ("1M miles") or where a count is asked for; "k" attached to any number. "12B" may be a
    room, and "m" is metres.
    """
    letters = scale[1] or scale[2]
    if letters in ("m", "MM"):
        return bool(currency) and (letters == "MM" or not scale[0].startswith(" "))
    if (
        len(letters) > 1
        or not letters.isascii()
        or currency
        or _CURRENCY_NEXT.match(text, scale.end())
    ):
        return True
    if scale[0].startswith(" "):
        return False
    return counts or letters in "kK" or "." in literal or bool(_unit(text, scale.end(), "")[0])


def _unit(text: str, end: int, currency: str) -> tuple[str, int]:
    """Return the unit that follows a number, and where it ends; "" if there is none."""
    if percent := _PERCENT.match(text, end):
        return "%", percent.end()
    written = _UNIT.match(text, end)
    unit = _unit_named(written["name"]) if written else ""
    if not written or not unit or (currency and unit != currency):
        return "", end
    end = written.end("exponent") if written["exponent"] else written.end("name")
    if written["power"] or written["exponent"]:
        cubic = (written["power"] or "").startswith("cu") or (written["exponent"] or "").endswith(
            "3"
        )
        unit += "³" if cubic else "²"
    per = _unit_named(written["per"] or "")
    if per and unit not in _PREFIXED:
        per = {"years": "year", "days": "day"}.get(per, per)
        return {"mi/h": "mph"}.get(f"{unit}/{per}", f"{unit}/{per}"), written.end()
    return unit, end


def _unit_named(written: str) -> str:
    """Return the unit that a word or sign stands for; "" for any other word."""
    if written in _SYMBOLS:
        return written
    return _UNITS.get(written if len(written) == 1 and written != "L" else written.lower(), "")


def _times(amount: Decimal | Fraction, factor: int | Decimal) -> Decimal | Fraction:
    """Return the product with all its digits, however many."""
    if isinstance(amount, Fraction):
        return amount * Fraction(factor)
    return Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN).multiply(amount, Decimal(factor))


def _float(amount: Decimal | Fraction) -> float:
    """Return the nearest float; never -0.0."""
    try:
        return float(amount) + 0.0
    except OverflowError:
        return math.inf


def format_number(value: float, unit: str = "") -> str:
    """Return a number as people write it: "1234", "12%", "$5000000", "9 kg".

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
    """Return the same of a decimal, with all of its digits but zeros at the end of decimals."""
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
    """Return a number's digits and its unit, on the side where people write it."""
    if unit in _PREFIXED:
        return f"-{unit}{digits[1:]}" if digits.startswith("-") else unit + digits
    return digits + unit if unit in ("", "%") else f"{digits} {unit}"


# Which number of a final answer is the answer.

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
    r"\b(?:how many|number of) ((?:(?!\b(?:is|are|was|were|do|does|did|can|could|have|has|will|in|on"
    r"|at|of|with|there|you)\b)[\w'-]+ ?){1,4})",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"(?:none|nothing|no \w+(?: \w+)?|zero)[.!]?$|.{0,40}\bthere (?:are|is) (?:no|none)\b"
    r"|no (?:\w+ ){1,3}(?:is|are|can be|appears?) "
    r"(?:visible|seen|shown|present|depicted|there|in|on|here)\b",
    re.IGNORECASE,
)
_ASKS_FOR_YEAR = re.compile(r"\b(?:what|which|the)(?: \w+)? year\b(?!s)|哪一?年", re.IGNORECASE)
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
    lines = text.split("\n")
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
    number = None
    if len(said) <= _FEW_SENTENCES:
        all_said = [
            (one, sentence) for found, sentence in zip(mentions, said, strict=True) for one in found
        ]
        number = asked.only(all_said) or _total(all_said, question)
    if number is None and (len(said) == 1 or _CONCLUSION.match(said[-1])):
        last = [(mention, said[-1]) for mention in mentions[-1]]
        number = asked.only(last) or _stated(said[-1], mentions[-1])
    return number and _as_share(number, question)


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
        """Return the number of all mentions, or of all that the question has not, or of the one
        that is said of what it counts; None if they differ or are not all understood.
        """
        fresh = [
            (mention, sentence)
            for mention, sentence in said
            if mention.number or sentence[mention.start : mention.end].casefold() not in self._text
        ]
        if any(mention.number is None for mention, _ in fresh):
            return None
        numbers = [mention.number for mention, _ in fresh if mention.number]
        new = [number for number in numbers if number.value not in self._values]
        counted = [
            mention.number
            for mention, sentence in fresh
            if mention.number
            and self._counted
            and self._counted == self._said_of(mention, sentence)
        ]
        for candidates in (numbers, new, counted if len(counted) == 1 else []):
            if len({number.value for number in candidates}) == 1:
                return max(candidates, key=lambda number: len(number.unit))
        return None

    def _said_of(self, mention: NumberMention, sentence: str) -> set[str]:
        """Return the words right after a number, as many as the question counts by."""
        after = content_words(sentence[mention.end : mention.end + 60])
        return set(after[: len(self._counted)])


def _total(said: Sequence[tuple[NumberMention, str]], question: str) -> Number | None:
    """Return the first or last number if it is the sum of all the others, which are its parts.

    Not where the question has a word that tells one part from the others: it may ask for this part.
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
            return None if telling.intersection(content_words(question)) else numbers[index]
    return None


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
        exact = number.exact and Decimal(_times(number.exact, 100))
        return Number(round(number.value * 100, 10), "%", exact)
    return number
