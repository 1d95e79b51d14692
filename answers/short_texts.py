"""Read short texts and the items of lists, and bring them into the form that compares."""

import re

from .final_answer import FinalAnswer, leaves_undecided
from .numbers import format_number, whole_number
from .plain_text import (
    PLACES,
    bare,
    content_words,
    fold,
    sentences,
    singular,
    tokens,
    word_list,
)
from .questions import asks_for_identifier, identifier_form

_BULLET = re.compile(r"(?:[-*•·+]|\(?\d{1,2}[.)]) +")
# Commas within a number do not separate: "1,234, 5" has two items.
_SEPARATOR = re.compile(r"[;\n|]|(?<!\d),|,(?!\d{3}(?!\d))| (?:and|&) ", re.IGNORECASE)
_LIST_LEAD_IN = re.compile(
    r"(?:here|the|these|those|they|it|there|both)\b[^,;\n]{0,80}?"
    r"\b(?:is|are|was|were|include|includes)\b:? ",
    re.IGNORECASE,
)
TUPLE = re.compile(r"\(-?\d[\d.]*(?:, ?-?\d[\d.]*)+\)")
_AND_LAST = re.compile(r"(?<=[\u4e00-\u9fff])[和与及](?=[\u4e00-\u9fff])")
_NOTE = re.compile(r" - .*")  # "Apple - on the left"
_DENIED_ITEM = re.compile(r"(?:but )?(?:not|no)\b(?=.)", re.IGNORECASE)
_ITEM_WORDS = 8
_ITEM_CHARACTERS = 120
_ITEMS = 100  # A longer list is an output that loops.


def read_items(text: str) -> tuple[str, ...] | None:
    """Return the items of a plain text as written, or None if it is prose.

    Items stand on lines with bullets or numbers, or between commas, semicolons, line breaks or
    "and"; between semicolons commas belong to the items. One item is a list too.
    """
    bullets = [line for line in text.split("\n") if _BULLET.match(line)]
    if bullets:
        items = [_NOTE.sub("", _BULLET.sub("", line, count=1)) for line in bullets]
    else:
        text = _LIST_LEAD_IN.sub("", bare(text), count=1)
        items = text.split(";") if ";" in text else _SEPARATOR.split(text)
        if len(items) > 1:
            items[-1:] = _AND_LAST.split(items[-1], maxsplit=1)
    items = [item for item in map(bare, items) if item and not _DENIED_ITEM.match(item)]
    if not 0 < len(items) <= _ITEMS or not all(map(_is_item, items)):
        return None
    return tuple(item.removeprefix("and ") for item in items)


def _is_item(text: str) -> bool:
    return len(text) <= _ITEM_CHARACTERS and len(text.split()) <= _ITEM_WORDS


_PHRASE_WORDS = 5
_ANSWER_WORDS = 20
_ANSWER_CHARACTERS = 300


_ONES = word_list("zero one two three four five six seven eight nine ten eleven twelve")
_ORDINALS = {
    "first": "1 st", "second": "2 nd", "third": "3 rd", "fourth": "4 th", "fifth": "5 th",
    "sixth": "6 th", "seventh": "7 th", "eighth": "8 th", "ninth": "9 th", "tenth": "10 th",
    "eleventh": "11 th", "twelfth": "12 th", "thirteenth": "13 th", "fourteenth": "14 th",
    "fifteenth": "15 th", "sixteenth": "16 th", "seventeenth": "17 th", "eighteenth": "18 th",
    "nineteenth": "19 th", "twentieth": "20 th", "hundredth": "100 th",
}  # fmt: skip
_WRITTEN_OUT = (
    {word: str(value) for value, word in enumerate(_ONES)}
    | _ORDINALS
    | {
        "&": "and", "percent": "%", "pct": "%", "grey": "gray", "colour": "color",
        "coloured": "colored", "colours": "colors", "centre": "center", "theatre": "theater",
        "tyre": "tire", "tyres": "tires", "favourite": "favorite", "harbour": "harbor",
        "neighbour": "neighbor", "flavour": "flavor", "aeroplane": "airplane",
        "doughnut": "donut", "moustache": "mustache",
    }
)  # fmt: skip
_MONTHS = word_list(
    "january february march april may june july august september october november december"
)
_MONTH = rf"(?P<month>{'|'.join(f'{m[:3]}(?:{m[3:]})?' if m[3:] else m for m in _MONTHS)}|sept)"
_DATE = re.compile(rf"\b(\d{{1,2}})(?: (?:st|nd|rd|th))?(?: of)? {_MONTH}\b")
_DATE_MONTH_FIRST = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?: (?:st|nd|rd|th))?(?= |$)")
_DATE_IN_DIGITS = re.compile(r"\b(\d{4})[-/](0?[1-9]|1[0-2])[-/]([0-3]?\d)\b")
_INITIALS = re.compile(r"(?<![\w.])(?:[A-Za-z]\.)+[A-Za-z]\b(?![@.]?\w)\.?")
_TIME = re.compile(r"(?<![\d.,])(\d{1,2})(?:[:.](\d\d))? ?([ap])\.?m\b", re.IGNORECASE)
_ALIASES = {
    "us": "united states",
    "usa": "united states",
    "united states of america": "united states",
    "uk": "united kingdom",
    "uae": "united arab emirates",
    "eu": "european union",
}
# In "A or B", "A/B", "A B" the letter is no article.
_ARTICLE = re.compile(
    r"(?<![\w'])(?:an?|the) +(?=[\"'(\[$€£¥₹#+-]?\w)(?!(?:and|or)\b|[^\W\d_](?: |\W*$))",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SCENE = r"(?:image|picture|photo|photograph|chart|graph|figure|diagram|plot|infographic|scene)"
_LEAD_IN = re.compile(
    rf"(?:(?:based on|according to|as (?:shown|seen) (?:in|on)|looking at|from|in|on) (?:the|this) "
    rf"(?:\w+ )?{_SCENE},? )?(?:I (?:think|believe|guess|(?:can )?see) (?:that )?)?(?:because )?"
    r"(?:(?:it|this|that|they|these|those)(?: is| are| was| were|'s|'re) |there (?:is|are) )?",
    re.IGNORECASE,
)
_IN_SCENE = re.compile(
    rf",? (?:shown |seen |depicted |visible )?(?:in|on|of|from) (?:the|this) {_SCENE}\b",
    re.IGNORECASE,
)
_ARTICLES = frozenset(word_list("a an the his her its their"))
LOOSE_PLACES = frozenset(word_list("in on at"))  # "Sofa" may mean "on the sofa", not "under" it.
_CLAUSE = re.compile(r"\b(?:is|are|was|were|has|have|had|shows?|can|let|need|looking)\b", re.I)
_COMMENT = re.compile(
    r"(?:it|this|that|the|they|there|these|as|since|because|i|in|based|we|you|he|she)\b", re.I
)
_WORD_SPAN = re.compile(r"\S+")
_NOT_BUT = re.compile(r"\bnot\b[^,;]*?,? (?:but|it is|it's|they are) (?:rather )?", re.IGNORECASE)
_NOT_AFTER = re.compile(
    r"(?:,| -|\() ?(?:and |but )?(?:not|rather than|instead of)\b.*", re.IGNORECASE
)
_DENIES = re.compile(
    r"(?:.*\b(?:is|are|was|were) )?not\b|.*\b(?:isn't|aren't|wasn't|weren't)\b", re.I
)
_ASIDE = re.compile(
    r",? (?:i (?:think|believe|guess|would say|suppose)|it seems|apparently|presumably)$",
    re.IGNORECASE,
)
# What a name that was asked for is said to have: "France, with 45", "France (45%)".
_WITH_AMOUNT = re.compile(
    r"(?:, ?(?:with|at) [^,;]*?\d[^,;]*| ?\([^()a-z]*\d[^()]*\)|: [$€£]?\d[\d.,]*%?)$",
    re.IGNORECASE,
)
_ASKS_FOR_NAME = re.compile(
    r"\b(?:which|who|what (?:country|city|state|team|color|colour))\b", re.I
)
_TWO_NAMES = re.compile(r"(?:either )?([\w'-]+(?: [\w'-]+)?) or ([\w'-]+(?: [\w'-]+)?)", re.I)
_SUPERLATIVE = re.compile(r"\b(?:most|least|\w{2,}est)\b", re.IGNORECASE)
_SEEMS = re.compile(r"\b(?:appears?|seems?|looks like it is) to be\b", re.IGNORECASE)
_IS = re.compile(r"\b(?:is|are|was|were)\b", re.IGNORECASE)
_READS_TEXT = re.compile(r"\b(?:say|says|read|reads|written|text|word|words|title|spell)\b", re.I)


def normalised(text: str) -> str:
    """Return a plain text as it is compared: one case, no accents, punctuation or articles.

    Numbers keep their value: "1,234 Dogs" and "1234 dogs", "three dogs" and "3 dogs", "18-24" and
    "18 to 24" come out alike. Signs that carry meaning stay ("5 > 3", "C#", "O-"). A text of
    punctuation alone stays as it is.
    """
    text = _TIME.sub(_time, _INITIALS.sub(lambda initials: initials[0].replace(".", ""), text))
    text = _DATE_IN_DIGITS.sub(lambda d: f"{d[3]} {_MONTHS[int(d[2]) - 1]} {d[1]}", text)
    said = tokens(_ARTICLE.sub("", text))
    words = [
        word
        if word == "second" and index and said[index - 1].isdecimal()  # a time, no place
        else _WRITTEN_OUT.get(word, _plain_number(word))
        for index, word in enumerate(said)
    ]
    kept = [
        word
        for index, word in enumerate(words)
        if not (word == "to" and _between_numbers(words, index))
    ]
    joined = " ".join(kept) or "".join(fold(text).split())
    joined = _DATE_MONTH_FIRST.sub(_date, _DATE.sub(_date, joined))
    return _ALIASES.get(joined, joined)


def _time(time: re.Match[str]) -> str:
    """Return a time of day in one spelling: "3:45 pm"."""
    return f"{time[1]}{(time[2] and ':' + time[2]) or ''} {time[3]}m"


def _date(date: re.Match[str]) -> str:
    """Return a day of a month in one spelling: "4 july"."""
    day = next(group for group in date.groups() if group.isdecimal())
    month = next(name for name in _MONTHS if name.startswith(date["month"][:3]))
    return f"{int(day)} {month}"


def comparison_key(text: str) -> tuple[str, ...]:
    """Return what equal short texts share: their normalised words, in the singular."""
    return tuple(singular(word) for word in normalised(text).split())


def read_short_text(answer: FinalAnswer, question: str = "") -> tuple[str, str] | None:
    """Return the phrase that a final answer gives: its normalised form, and as it was written.

    A phrase that is a number comes out in one form ("12%", "5000000"). None where the answer is
    longer than a short text, or gives several phrases.
    """
    phrase = _phrase(answer)
    if phrase is None:
        return None
    is_said = _READS_TEXT.search(question) is None
    if is_said:
        phrase = _affirmed(_ASIDE.sub("", phrase), question)
    phrase = _without_echo(_LEAD_IN.sub("", phrase, count=1), question)
    if is_said and _names_two_or_another(phrase, question):
        return None
    value = "" if leaves_undecided(phrase) else compared_form(phrase, question)
    return (value, phrase) if value else None


def _affirmed(phrase: str, question: str) -> str:
    """Return what a phrase affirms, without what it denies: "not A but B", "B, not A" give "B".

    "" where it only denies. A name that was asked for stands without the amount that it has.
    """
    phrase = _NOT_AFTER.sub("", _NOT_BUT.sub("", _SEEMS.sub("is", phrase), count=1))
    if _DENIES.match(phrase):
        return ""
    return _WITH_AMOUNT.sub("", phrase) if _ASKS_FOR_NAME.search(question) else phrase


def _names_two_or_another(phrase: str, question: str) -> bool:
    """Return whether a phrase leaves two answers open, or tells of other things than asked."""
    if _TWO_NAMES.fullmatch(phrase) and "or" not in tokens(question):
        return True
    if len(_IS.findall(phrase)) > 1:  # "the left one is red and the right one is blue"
        return True
    extremes = {word.lower() for word in _SUPERLATIVE.findall(phrase)}
    wanted = {word.lower() for word in _SUPERLATIVE.findall(question)}
    return bool(wanted and extremes - wanted)


def compared_form(phrase: str, question: str = "") -> str:
    """Return a phrase normalised; one that is a number as this number ("12%", "$5000000").

    Where the question asks for a number that names something, see `identifier_form`.
    """
    if asks_for_identifier(question):
        return identifier_form(phrase) or identifier_form(normalised(phrase)) or normalised(phrase)
    number = whole_number(phrase, question)
    return format_number(number.value, number.unit) if number else normalised(phrase)


def _phrase(answer: FinalAnswer) -> str | None:
    lines = answer.text.split("\n")
    line: str | None = lines[0]
    if len(lines) > 1 and not answer.marked:
        line = _phrase_among(lines)
    if line is None:
        return None
    said = sentences(line)
    if len(said) > 1 and _is_phrase(said[0]) and _COMMENT.match(said[1]):
        line = said[0]
    if len(line) > _ANSWER_CHARACTERS or len(line.split()) > _ANSWER_WORDS:
        return None
    return line if TUPLE.fullmatch(line) else bare(line)


def _phrase_among(lines: list[str]) -> str | None:
    """Return the one phrase at the start or end of an output of several lines.

    Few lines that are all phrases are one text (a sign reads "NO / PARKING").
    """
    phrases = [line for line in (lines[0], lines[-1]) if _is_phrase(line)]
    if len(lines) <= 3 and all(map(_is_phrase, lines)):
        return " ".join(lines)
    if len({comparison_key(phrase) for phrase in phrases}) == 1:
        return phrases[0]
    return None


def _is_phrase(text: str) -> bool:
    """Return whether a text is a few words and no clause."""
    if text.endswith(":") or len(text.split()) > _PHRASE_WORDS:
        return False
    return not _CLAUSE.search(text)


_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|(?<=\w{4})e)$|(?<=\w)'s?$")
# What follows one is no answer by itself: "the cat is left of the dog", "it is larger than B".
_RELATING = frozenset(word_list("of than to from by"))


def _without_echo(phrase: str, question: str) -> str:
    """Return the phrase without what it repeats of the question: "The car is red" gives "red".

    A preposition that says where goes with what is new ("on the sofa").
    Only where what is new is one piece at the start or at the end; else the phrase as it is, since
    the order of the words may matter ("the dog is behind the car").
    """
    asked = set(map(_stem, content_words(question))) - {"one"}
    if asked.intersection(map(_stem, content_words(phrase))):
        phrase = _IN_SCENE.sub("", phrase)
    words = list(_WORD_SPAN.finditer(phrase))
    said = [[_stem(found) for found in content_words(word.group())] for word in words]
    new = [i for i, found in enumerate(said) if any(word not in asked for word in found)]
    echoed = [i for i, found in enumerate(said) if any(word in asked for word in found)]
    if not new or not echoed or not (new[-1] < echoed[0] or echoed[-1] < new[0]):
        return phrase
    first = new[0]
    before = [word.group().lower() for word in words[:first]]
    while before and before[-1] in _ARTICLES:
        before.pop()
    if before and before[-1] in _RELATING:
        order = [
            word for word in map(_stem, content_words(question)) if any(word in s for s in said)
        ]
        if before[-1] not in tokens(question) or order != [
            word for i in echoed for word in said[i]
        ]:
            return phrase
    if before and before[-1] in PLACES.difference(tokens(question)):
        first = len(before) - 1
    return bare(phrase[words[first].start() : words[new[-1]].end()])


def _stem(word: str) -> str:
    """Return a word without the ending of a verb or a possessive: "holding", "holds": "hold"."""
    return _ENDING.sub("", word)


def _plain_number(word: str) -> str:
    """Return a number token without thousands separators; "1.10" stays, it may be a chapter."""
    return word.replace(",", "") if _THOUSANDS.fullmatch(word.lstrip("-")) else word


def _between_numbers(words: list[str], index: int) -> bool:
    around = words[index - 1 : index] + words[index + 1 : index + 2]
    return len(around) == 2 and all(word[-1].isdigit() for word in around)
