"""The grammar of numbers: digits, number words, fractions, scales, signs, units.

A number counts only where all of it is understood: its separators, its unit, and what is attached
to it on both sides. Any other span that looks like one (a range, a bound, a date, an ordinal, a
part of a name or a code) is kept without a number, so that whoever reads a sentence knows that it
holds more than was understood.
"""

import math
import re
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction

from .plain_text import word_list

_Amount = Decimal | Fraction | None

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
_HAN_DIGITS = {"两": 2} | {digit: value for value, digit in enumerate("零一二三四五六七八九")}
_HAN_FACTORS = {"十": 10, "百": 100, "千": 10**3, "万": 10**4, "亿": 10**8}
_SCALES = _FACTORS | {
    "k": 10**3, "K": 10**3, "千": 10**3, "万": 10**4, "lakh": 10**5, "mn": 10**6, "mln": 10**6,
    "mio": 10**6, "M": 10**6, "m": 10**6, "MM": 10**6, "crore": 10**7, "亿": 10**8, "bn": 10**9,
    "B": 10**9, "trillion": 10**12, "tn": 10**12, "T": 10**12,
}  # fmt: skip

PREFIXED = ("$", "€", "£", "¥", "₹")  # Units that people write before a number.
_LENGTHS = word_list("km m cm mm mi ft yd in")
# Each unit with its spellings in lower case.
_UNITS = {
    spelling: group.split()[0]
    for group in """
        % percent pct percentage; $ us$ usd dollar dollars; € eur euro euros; £ gbp;
        ¥ jpy yen cny rmb yuan 元; ₹ rs inr rupee rupees;
        kg kgs kilo kilos kilogram kilograms; g gram grams; mg milligram milligrams;
        t tonne tonnes; lb lbs pound pounds; oz ounce ounces;
        km kilometer kilometers kilometre kilometres; m meter meters metre metres;
        cm centimeter centimeters centimetre centimetres;
        mm millimeter millimeters millimetre millimetres;
        mi mile miles; ft foot feet; yd yard yards;
        l liter liters litre litres; ml milliliter milliliters millilitre millilitres;
        cup cups; tbsp tablespoon tablespoons; tsp teaspoon teaspoons; km/h kmh kph; mph;
        s sec secs second seconds; min mins minute minutes; h hr hrs hour hours;
        days day; weeks week; months month; years year yr yrs;
        ° degree degrees; °C °c celsius; °F °f fahrenheit; times x
    """.split(";")  # noqa: SIM905
    for spelling in group.split()
} | {"inch": "in", "inches": "in"}
# In these units a letter means something else in another case: milli and mega, bit and byte.
_SYMBOLS = frozenset(
    word_list(
        "bar hbar kbar mbar Mbar Pa hPa kPa mPa MPa Hz kHz MHz GHz THz kW MW GW TW mW kV MV mV eV "
        "keV MeV GeV TeV Wh kWh MWh GWh TWh kJ MJ kcal mA mAh kB KB MB GB TB kb Mb Gb Tb dB ha"
    )
)

_EXACT = 2**53  # From here on a float no longer holds every whole number.
_NEAR = 30  # How many characters before a number can tell what it is.
_TRIED = 200  # An output of more numbers than these loops, or is a table.
_DIGITS_TRIED = 400  # More in a row are no number that anybody reads.

_WORD = rf"(?:{'|'.join([*_WORDS, *_FACTORS])})"
_PART = rf"(?:{'|'.join(_PARTS)}|halve)s?"
_HAN = f"[{''.join([*_HAN_DIGITS, *_HAN_FACTORS])}]"
_START = re.compile(
    r"(?P<digits>(?<![\w.,])[.,]\d(?:[\d.,]*\d)?|\d(?:[\d.,]*\d)?)"
    rf"|\b(?P<words>{_WORD}"
    rf"(?:(?:[ -]| and |(?<=thousand), |(?<=million), ){_WORD}\b(?![ -]{_PART}\b))*"
    rf"(?: point(?: (?:{'|'.join(_ONES[:10])})\b)+)?)\b"
    rf"|(?:^|(?<=[有是为共约:\s]))(?P<han>{_HAN}+半?)",
    re.IGNORECASE,
)
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+(?:\.\d+)?(?!\d|[.,]\d)")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+|(?P<lakhs>\d{1,2}(?:,\d{2})+,\d{3})|\d{1,3}(?:\.\d{3})+")
_UNDER = re.compile(r"/(\d{1,3})(?![\d/])")
_MIXED = re.compile(r" (\d{1,3})/(\d{1,3})(?![\d/])")
_AND_PART = re.compile(rf" (?:and )?(?:an? |one[ -])({_PART})\b", re.IGNORECASE)
_OF_PARTS = re.compile(rf"[ -]({_PART})\b", re.IGNORECASE)
_EXPONENT = re.compile(
    r"e(?P<e>[-+]?\d{1,3})(?!\w)| ?[×x*·⋅] ?10\^\{?(?P<power>[-+]?\d{1,3})\}?(?!\w)", re.IGNORECASE
)
_POWER_OF_TEN = re.compile(r"\^\{?([-+]?\d{1,3})\}?(?!\w)")
_SCALE = re.compile(
    r" ?((?i:hundred|thousand|million|billion|trillion|dozen|mn|mln|mio|bn|tn|lakh|crore)(?!\w)"
    r"|(?:MM|[kKMBTm])(?!\w)|[千万亿])"
)
_PERCENT = re.compile(r" ?(?:%|(?:per ?cent|pct|percentage)\b)(?: points?\b)?", re.IGNORECASE)
_UNIT = re.compile(
    r"[ -]?(?P<power>(?:square|sq\.?|cubic|cu\.?) )?(?P<name>US\$|[$€£¥₹元]|°[CF]?|[A-Za-z]+)"
    r"(?P<exponent>\^?[23])?(?![A-Za-z\d^])(?:(?:/| per )(?P<per>[A-Za-z]+)(?![\w^/]))?"
)
_INCHES_LAST = re.compile(r"([ -]?in)\b\W*$")  # Elsewhere "in" is a preposition.
_BEFORE = re.compile(
    r"(?P<sign>(?<![\w)])[-+]|\b(?:minus|negative) |)"
    r"(?P<currency>\bUS ?\$ ?|[$€£¥₹] ?|\b(?:USD|EUR|GBP|INR|JPY|CNY|RMB|Rs\.?) |)"
    r"(?P<inner>(?<=[$€£¥₹])[-+]|)$",
    re.IGNORECASE,
)
_CURRENCY_NEXT = re.compile(r" ?(?:[$€£]|(?:USD|EUR|GBP|dollars|euros)\b)")

# What makes a span no exact value: what stands before or after it.
_BROKEN_BEFORE = re.compile(
    # A function or an operator of the number, or a further argument of one.
    r"\b(?:half|quarters?|thirds?|fifths?|tenths?)(?: of)?(?: an?| the)? $"
    r"|(?:[√∛∑∏∫]|\\(?!f?box(?:ed)?\b)[A-Za-z]+|\b(?:sqrt|log|ln|exp|sin|cos|tan)) ?[({]*$|\}\{$"
    r"|(?:[A-Za-z_^]|\d[,/:]|[A-Za-z0-9]-|[A-Za-z\d]\.|^- |(?:[$€£¥₹]|\b[A-Z]{3}) ?\()$"
)
_BROKEN_AFTER = re.compile(
    r"[A-Za-z_^\d/]| ?(?:[√π∞‰]|\\(?!end\b)[A-Za-z]|pi\b)|'[A-Za-z]|[.:,]\d|\+(?! )|-(?=[A-Za-z\d])"
    r"|[ -](?:half|halves|(?:hundred|thousand|million)ths?)\b|(?: and| point)\W*$"
    rf"|{_HAN}|个?半|分之| (?:or|and) (?:more|less|fewer|above|below|over|under)\b|多|以上"
)
_BOUND = re.compile(
    r"(?:\b(?:more|less|fewer|greater|higher|lower|larger|smaller|other) than(?: or equal to)?"
    r"|\b(?:over|above|under|below|at least|at most|up to|nearly|almost|exceeds?|exceeding|beyond)"
    r"|[<≤≥]=?|(?<![=-])>=?|超过|至少|不到) ?(?:an? )?$",
    re.IGNORECASE,
)
_DECADE = re.compile(r"0'?s\b")
_TIME = re.compile(r" ?[ap]\.?m\b| ?o'clock\b|点", re.IGNORECASE)
_VARIABLE = re.compile(r"\b[a-z] ?= ?$")  # In "n = 3k" the k is no thousand.
# Letters beside a number make it a code (flight BA 117, house 12 M), unless they are a unit.
_CODE_BEFORE = re.compile(r"(?<![\w'.-])[A-Z]{1,4}[ /-]?$|第$")
_CODE_AFTER = re.compile(r" ?(?:[A-Z]{1,4}|(?<= )[b-z])(?![\w'])| a$")
_RANGE = re.compile(r" ?(?:-|~|±|/|\bto\b|\bor\b) ?", re.IGNORECASE)
_BESIDE = re.compile(r"[ ()/-]{1,3}")
# "One" is a number in "there is one", "one dog"; in "the left one" or "one of them" it is none.
_ONE_COUNTS_AFTER = re.compile(
    r"(?:^|[=:(→]|\b(?:is|are|was|were|be|only|just|exactly|about|see|shows?|has|have|contains?"
    r"|total|total of|equals?|minus|there's)"
    rf"|(?:\d|\b{_WORD}) \w+,? (?:and|plus))[ (]*$",
    re.IGNORECASE,
)
_ONE_IS_PRONOUN = re.compile(
    r" (?:of|can|could|may|might|must|should|would|that|which|who)\b", re.IGNORECASE
)
_HAN_COUNTED = re.compile(
    r"$|[\s,.;:!?%元个只条张名位人辆头匹本座棵朵块分岁年层件种颗台架艘把双对次]"
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
    position = tried = 0
    while start := _START.search(text, position):
        tried += 1
        if tried > _TRIED:
            return [*found, NumberMention(None, start.start(), len(text))]
        mention = _mention(text, start, counts=counts)
        position = max(start.end(), mention.end if mention else 0)
        if mention and found and _is_one_span(text, found[-1], mention):
            found[-1] = NumberMention(None, found[-1].start, mention.end)
        elif mention:
            found.append(mention)
    return found


def _is_one_span(text: str, first: NumberMention, second: NumberMention) -> bool:
    """Return whether two neighbours are a range, or groups of digits of a code."""
    between = text[first.end : second.start] if second.start - first.end <= 5 else "far"
    if _RANGE.fullmatch(between):
        return True
    understood = first.number is not None and second.number is not None
    if between == " ":
        return not understood or first.number != second.number
    return not understood and _BESIDE.fullmatch(between) is not None


def _mention(text: str, start: re.Match[str], *, counts: bool) -> NumberMention | None:
    """Return the number that begins at a match; None where the words there are no number at all."""
    before = text[max(0, start.start() - _NEAR) : start.start()]
    prefix = next(_BEFORE.finditer(before))
    lead = before[: prefix.start()]
    currency = _unit_named(prefix["currency"].strip(" .").replace(" ", ""))
    amount, end = _amount(text, start, before)
    if end < 0:
        return None
    literal = text[start.start() : end]
    scale = _SCALE.match(text, end)
    if scale and _is_scale(text, scale, literal, currency, counts=counts):
        factor = scale[1] if len(scale[1]) <= 2 else scale[1].lower()
        amount = amount and _times(amount, _SCALES.get(factor) or _SCALES[factor.lower()])
        end = scale.end()
    else:
        scale = None
    unit, end = _unit(text, end, currency)
    unit = currency or unit
    counted = _ONE_COUNTS_AFTER.search(before) and not _ONE_IS_PRONOUN.match(text, end)
    if literal.lower() == "one" and end == start.end() and not counted:
        return None
    if amount is None and start["digits"] and unit:
        amount = _decimal_comma(literal)
    begin = start.start() - len(prefix[0])
    if amount is None or _is_broken(text, start, end, lead, bare=not unit, scale=scale):
        return NumberMention(None, begin, end)
    if not {"-", "minus", "negative"}.isdisjoint((prefix["sign"].strip().lower(), prefix["inner"])):
        amount = amount.copy_negate() if isinstance(amount, Decimal) else -amount
    value = _float(amount)
    too_long = abs(value) >= _EXACT and not (scale or "e" in literal.lower() or "^" in literal)
    if too_long or not math.isfinite(value):
        return NumberMention(None, begin, end)
    exact = amount if isinstance(amount, Decimal) else None
    return NumberMention(Number(value, unit, exact), begin, end)


def _is_broken(
    text: str, start: re.Match[str], end: int, lead: str, *, bare: bool, scale: re.Match[str] | None
) -> bool:
    """Return whether what stands around a number makes it no exact value, or part of a code."""
    if _BROKEN_AFTER.match(text, end) or _BOUND.search(lead) or _TIME.match(text, start.end()):
        return True
    if not start["digits"]:
        return False
    return bool(
        _BROKEN_BEFORE.search(lead)
        or _DECADE.match(text, start.end() - 1)
        or (bare and _CODE_BEFORE.search(lead))
        or (bare and not scale and _CODE_AFTER.match(text, end))
        or (scale and len(scale[1]) == 1 and _VARIABLE.search(lead))
        or (text.startswith(")", end) and lead.endswith("(") and not bare)
    )


def _amount(text: str, start: re.Match[str], before: str) -> tuple[_Amount, int]:
    """Return the value without scale and unit, and where it ends: -1 if it is no number at all."""
    if start["digits"]:
        return _digits(text, start)
    if start["words"]:
        if text.startswith("-", start.end()) or _BROKEN_BEFORE.search(before):
            return None, -1  # "one-way"
        return _spelled(text, start, counted=not before or before.endswith(("a ", "A ")))
    counted = _HAN_COUNTED.match(text, start.end())
    return (_han(start["han"]), start.end()) if counted else (None, -1)


def _digits(text: str, start: re.Match[str]) -> tuple[_Amount, int]:
    """Return the value that digits begin with, and where it ends: "2 1/2", "1.5e6", "3/4"."""
    literal, end = start[0], start.end()
    if len(literal) > _DIGITS_TRIED:
        return None, end
    if literal.isdecimal():
        whole = None if _leading_zero(literal) else int(literal)
        if spaced := _SPACED.match(text, start.start()):
            return _literal(spaced[0].replace(" ", "")), spaced.end()
        if under := _UNDER.match(text, end):
            fits = whole is not None and whole < 1000 and under[1][0] != "0"
            return (Fraction(whole or 0, int(under[1])) if fits else None), under.end()
        if whole is not None and (mixed := _MIXED.match(text, end)):
            proper = 0 < int(mixed[1]) < int(mixed[2])
            return (whole + Fraction(int(mixed[1]), int(mixed[2])) if proper else None), mixed.end()
        if whole is not None and (part := _AND_PART.match(text, end)):
            return whole + _part(part[1]), part.end()
        if whole == 10 and (ten := _POWER_OF_TEN.match(text, end)):
            return Decimal(1).scaleb(int(ten[1])), ten.end()
    amount = _literal(literal)
    if exponent := _EXPONENT.match(text, end):
        factor = Decimal(1).scaleb(int(exponent["e"] or exponent["power"]))
        return amount and _times(amount, factor), exponent.end()
    return amount, end


def _literal(digits: str) -> Decimal | None:
    """Return the value of digits with separators, where these can mean but one thing."""
    signs = [sign for sign in digits if sign in ".,"]
    if _leading_zero(digits):
        return Decimal(digits.replace(",", ".")) if digits[1] == "," and len(signs) == 1 else None
    if not signs or signs == ["."]:
        return Decimal(digits)
    whole, decimals = digits, "0"
    if signs[-1] not in signs[:-1] and len(signs) > 1:
        whole, _, decimals = digits.rpartition(signs[-1])
    if not _GROUPED.fullmatch(whole):
        return None
    return Decimal(f"{whole.replace(',', '').replace('.', '')}.{decimals}")


def _leading_zero(digits: str) -> bool:
    """Return whether digits start like a code ("007"), or with a comma as in "0,5"."""
    return len(digits) > 1 and digits[0] == "0" and digits[1] != "."


def _decimal_comma(digits: str) -> Decimal | None:
    """Return the value of "1,57" and ",89": beside a unit the comma can be nothing else."""
    whole, _, decimals = digits.partition(",")
    if not decimals.isdecimal() or not (whole or "0").isdecimal() or _leading_zero(whole):
        return None
    return Decimal(f"{whole or 0}.{decimals}")


def _spelled(text: str, start: re.Match[str], *, counted: bool) -> tuple[_Amount, int]:
    """Return the value of number words, and where it ends: "two and a half", "one-fourth"."""
    words, _, decimals = start["words"].lower().partition(" point ")
    end = start.end()
    value = _spelled_value(words, counted=counted)
    if value is None:
        return None, end
    if decimals:
        return Decimal(f"{value}.{''.join(str(_WORDS[word]) for word in decimals.split())}"), end
    if part := _AND_PART.match(text, end):
        return value + _part(part[1]), part.end()
    if parts := _OF_PARTS.match(text, end):
        return (value * _part(parts[1]) if value < 10 else None), parts.end()
    return Decimal(value), end


def _part(word: str) -> Fraction:
    """Return the value of "half", "thirds"."""
    word = word.lower().removesuffix("s")
    return Fraction(1, _PARTS.get(word, 2))


def _spelled_value(words: str, *, counted: bool) -> int | None:
    """Return the value of number words, or None if they are not one number ("two and three").

    Args:
        words: The words, in lower case.
        counted: Whether a factor may come first, as in "a hundred".
    """
    total, part = 0, int(counted and words.split(maxsplit=1)[0] in _FACTORS)
    for word in re.split(r"[ ,-]+", words):
        if factor := _FACTORS.get(word):
            if not part or (factor >= 1000 and 0 < total <= factor):
                return None
            part *= factor  # What the next "thousand" or "million" multiplies.
            if factor >= 1000:
                total, part = total + part, 0
        elif word != "and":
            value = _WORDS[word]
            room = 100 if value >= 10 else 10  # 20 goes after a hundred, 3 after a twenty.
            if part % room or (value < 10 and part % 100 == 10) or (not value and words != word):
                return None
            part += value
    return total + part


def _han(signs: str) -> _Amount:
    """Return the value of a Chinese numeral; None of "two or three" (两三) and the like."""
    if signs == "一半":
        return Fraction(1, 2)
    total = part = digit = 0
    last = ""
    for sign in signs:
        if sign in _HAN_DIGITS:
            if last in _HAN_DIGITS and last != "零":
                return None
            digit = _HAN_DIGITS[sign]
        elif _HAN_FACTORS.get(sign, 0) >= 10**4:
            part += digit
            if not part and not total:
                return None
            factor = _HAN_FACTORS[sign]
            small = not part or total < factor  # 一万五千亿, 三亿五千万
            total = (total + part) * factor if small else total + part * factor
            part = digit = 0
        elif sign in _HAN_FACTORS:
            part += (digit or 1) * _HAN_FACTORS[sign]
            digit = 0
        else:
            return None
        last = sign
    if digit and len(signs) > 1 and signs[-2] not in "零十":
        return None  # "三百五" is 350.
    return Decimal(total + part + digit)


def _is_scale(
    text: str, scale: re.Match[str], literal: str, currency: str, *, counts: bool
) -> bool:
    """Return whether letters multiply the number before them.

    Words do. A single letter does with a currency ("$12 B"), attached to a decimal ("1.2M"), before
    a unit ("1M miles") or where a count is asked for; "k" attached to any number. "12B" may be a
    room, and "m" is metres.
    """
    letters, spaced = scale[1], scale[0].startswith(" ")
    if letters in ("m", "MM"):
        return bool(currency) and (letters == "MM" or not spaced)
    if len(letters) > 1 or not letters.isascii() or currency:
        return True
    if _CURRENCY_NEXT.match(text, scale.end()):
        return True
    known = counts or letters in "kK" or "." in literal or bool(_unit(text, scale.end(), "")[0])
    return known and not spaced


def _unit(text: str, end: int, currency: str) -> tuple[str, int]:
    """Return the unit that follows a number, and where it ends; "" if there is none."""
    if percent := _PERCENT.match(text, end):
        return "%", percent.end()
    if not currency and (inches := _INCHES_LAST.match(text, end)):
        return "in", inches.end(1)
    written = _UNIT.match(text, end)
    unit = _unit_named(written["name"]) if written else ""
    if not written or not unit or (currency and unit != currency):
        return "", end
    if raised := (written["power"] or written["exponent"]):
        if unit not in _LENGTHS:
            return "", end
        unit += "³" if raised.startswith("cu") or raised.endswith("3") else "²"
    per = _unit_named(written["per"] or "")
    if per and unit not in PREFIXED:
        unit = f"{unit}/{per.removesuffix('s') or 's'}"
        return {"mi/h": "mph"}.get(unit, unit), written.end()
    return unit, written.end("exponent") if written["exponent"] else written.end("name")


def _unit_named(written: str) -> str:
    """Return the unit that a word or sign stands for; "" for any other word."""
    if written in _SYMBOLS:
        return written
    return _UNITS.get(written if len(written) == 1 and written != "L" else written.lower(), "")


def _times(amount: Decimal | Fraction, factor: int | Decimal) -> Decimal | Fraction:
    """Return the product with all its digits, however many."""
    return amount * Fraction(factor) if isinstance(amount, Fraction) else multiply(amount, factor)


def multiply(a: Decimal, b: int | Decimal) -> Decimal:
    """Return the product with all its digits, however many."""
    return Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN).multiply(a, Decimal(b))


def _float(amount: Decimal | Fraction) -> float:
    """Return the nearest float; never -0.0."""
    try:
        return float(amount) + 0.0
    except OverflowError:
        return math.inf
