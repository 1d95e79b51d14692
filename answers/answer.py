"""Read a model's output as a typed answer, and compare two of them."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Literal

from .choices import read_choice
from .final_answer import FinalAnswer, declines, emphasised, final_answer, whole_answer
from .number_grammar import Number, number_mentions
from .numbers import format_number, read_number, whole_number
from .plain_text import plain, sentences, telling_words, word_list
from .questions import AnswerType, asks_for_identifier, split_choices
from .short_texts import (
    LOOSE_PLACES,
    TUPLE,
    compared_form,
    comparison_key,
    normalised,
    read_items,
    read_short_text,
)
from .yes_no import read_yes_no

Verdict = Literal["agree", "disagree", "abstain"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One model output, read.

    Attributes:
        kind: The type it was read as.
        value: What it says, in a form that compares: a bool of yes and no; a choice's letter; a
            float; a normalised text; a tuple of normalised texts. None is an abstention: the
            output states no answer of this kind, or states two.
        text: The part of the output that was read, as the model wrote it.
        unit: Of a number only: "%", a currency sign or a unit of measure, "" if none was written.
        exact: Of a number only: all the digits that were written, which a float may not hold; None
            where they are no decimal (1/3). It is shown; what compares is `value`.
    """

    kind: AnswerType
    value: bool | float | str | tuple[str, ...] | None
    text: str
    unit: str = ""
    exact: Decimal | None = field(default=None, compare=False)

    @property
    def shown(self) -> str:
        """Return the answer as people write it: "yes", "B", "1234", "12%", "a, b"."""
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, float):
            return format_number(self.value, self.unit, self.exact)
        if self.kind == "choice" and isinstance(self.value, str):
            return self.value
        return self.text


# What a number that names something is more than: "1.10", "2024/001", "12B".
_GROUPS = re.compile(r"\d[^\w\n]{1,3}\d|\d ?[A-Za-z]\b")
_SPEAKER = "A: "  # Not taken off a choice, where it is a letter.


def parse(
    text: str, answer_type: AnswerType, choices: Sequence[str] = (), question: str = ""
) -> Answer:
    """Read what a model answered, or that it did not.

    Args:
        text: The model's output, whole: with think blocks, Markdown, labels, explanations.
        answer_type: What to read it as.
        choices: The options of a choice, in the order of their letters; by default those that the
            question lists.
        question: What was asked. It tells what a bare statement is about, and whether a fraction
            stands for a percentage.

    Returns:
        An answer whose value is None where the output states no answer of this type, or more than
        one: it is empty, unfinished, a refusal, or contradicts itself.
    """
    return _read(text, answer_type, tuple(choices), question)


@lru_cache(maxsize=64)  # agents that agree often say the same, word for word
def _read(text: str, answer_type: AnswerType, choices: tuple[str, ...], question: str) -> Answer:
    final = whole_answer(text) if answer_type == "free_text" else final_answer(text)
    if final is None:
        return Answer(answer_type, None, text.strip())
    if answer_type == "choice":
        options = choices or split_choices(question)[1]
        return Answer("choice", read_choice(final, options, plain(question)), final.text)
    final = FinalAnswer(final.text.removeprefix(_SPEAKER), final.marked)
    question = plain(question)
    if answer_type == "yes_no":
        return Answer("yes_no", read_yes_no(_stated(final), question), final.text)
    if answer_type == "free_text":
        described = not declines(sentences(final.text)[0])
        return Answer("free_text", normalised(final.text) if described else None, final.text)
    if declines(_stated(final)):
        return Answer(answer_type, None, final.text)
    if answer_type == "number":
        return _number(final, question)
    if answer_type == "short_text":
        if not final.marked:
            final = emphasised(text) or final
        value, phrase = read_short_text(final, question) or (None, final.text)
        return Answer("short_text", value, phrase)
    return _list(final, question)


def _stated(final: FinalAnswer) -> str:
    """Return the text that states the answer: all of it, or of a marked answer its first line."""
    return final.first_line if final.marked else final.text


def _number(final: FinalAnswer, question: str) -> Answer:
    stated = _stated(final)
    number = read_number(stated, question, marked=final.marked)
    if number is None or (asks_for_identifier(question) and _GROUPS.search(stated)):
        return Answer("number", None, final.text)
    return Answer("number", number.value, stated, number.unit, number.exact)


def _list(final: FinalAnswer, question: str) -> Answer:
    items = read_items(final.text)
    if items is None:
        return Answer("list", None, final.text)
    return Answer("list", tuple(compared_form(item, question) for item in items), ", ".join(items))


FREE_TEXT_OVERLAP = 0.6
"""Two free texts can agree from this share of common words on (F1 of the two bags of words)."""

_NEGATIONS = frozenset(word_list("no not never none nobody nothing neither nor without"))


def agree(a: Answer, b: Answer, *, free_text_overlap: float = FREE_TEXT_OVERLAP) -> Verdict:
    """Return whether two answers say the same. Symmetric.

    - yes_no and choice: the same word or letter.
    - number: the same value (whole numbers exactly, others up to float noise), or one is the other
      rounded to fewer decimals with at least two digits left ("12" and "12.4", not "2" and "2.4");
      and no two different units.
    - short_text: as numbers where both are numbers, as lists where both are lists, else the same
      normalised words, plural or singular. Numbers that name something ("#" forms): as written.
    - list: the same items in any order, each as often; numbers in them exactly.
    - free_text: see `free_texts_agree`.

    Args:
        a: One answer.
        b: The other one.
        free_text_overlap: Share of common words from which two free texts can agree, 0 to 1.

    Returns:
        "abstain" where either answer is an abstention or they are of different kinds.
    """
    if a.kind != b.kind or a.value is None or b.value is None:
        return "abstain"
    match a.value, b.value:
        case bool() as x, bool() as y:
            same = x == y
        case (int() | float()) as x, (int() | float()) as y:
            same = _same_number(Number(x, a.unit), Number(y, b.unit))
            same = same and not (_counts_instead(a, b) or _counts_instead(b, a))
        case (tuple() | list()) as x, (tuple() | list()) as y:
            same = _same_items(x, y)
        case str() as x, str() as y:
            if a.kind == "short_text":
                named = x.startswith("#") or y.startswith("#")
                same = x == y if named else _same_text(x, y) or _same_list(a.text, b.text)
            elif a.kind == "free_text":
                same = free_texts_agree(x, y, free_text_overlap)
            else:
                same = x == y
        case _:
            return "abstain"
    return "agree" if same else "disagree"


def free_texts_agree(a: str, b: str, overlap: float = FREE_TEXT_OVERLAP) -> bool:
    """Return whether two descriptions say about the same: a default, made to be replaced.

    They must share `overlap` of their words (all but articles, auxiliaries and the like),
    mention the same numbers, and both hold a negation or neither. One may add words to the other,
    but not put them in another order ("the dog chases the cat") nor put other words in their place
    (a colour, a side, "off" for "on"): that would say something else, or may.
    """
    words_a, words_b = telling_words(a), telling_words(b)
    if a == b or not words_a or not words_b:
        return a == b
    bag_a, bag_b = Counter(words_a), Counter(words_b)
    if _numbers(bag_a) != _numbers(bag_b) or _negated(bag_a) != _negated(bag_b):
        return False
    shared = 2 * (bag_a & bag_b).total() / (bag_a.total() + bag_b.total())
    return shared >= overlap and _only_adds(words_a, words_b)


def _only_adds(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether two texts hold their common words in one order, and nowhere replace words."""
    common = set(a) & set(b)
    runs_a, runs_b = _runs(a, common), _runs(b, common)
    return len(runs_a) == len(runs_b) and all(
        word_a == word_b and not (own_a and own_b)
        for (own_a, word_a), (own_b, word_b) in zip(runs_a, runs_b, strict=True)
    )


def _runs(words: Sequence[str], common: set[str]) -> list[tuple[bool, str]]:
    """Return the common words ("" last), each with whether the text's own words come before it."""
    runs: list[tuple[bool, str]] = []
    own = False
    for word in (*words, ""):
        if word in common or not word:
            runs.append((own, word))
        own = word not in common
    return runs


def _same_number(a: Number, b: Number) -> bool:
    if a.unit and b.unit and a.unit != b.unit:
        return False
    if a.value.is_integer() and b.value.is_integer():
        return a.value == b.value
    if math.isclose(a.value, b.value, rel_tol=1e-12, abs_tol=1e-12):
        return True
    return _rounds_to(a.value, b.value) or _rounds_to(b.value, a.value)


def _counts_instead(counted: Answer, measured: Answer) -> bool:
    """Return whether one number is measured and the other counts things: "5 kg" and "5 boxes"."""
    if counted.unit or not measured.unit or not counted.text:
        return False
    mentions = number_mentions(counted.text)
    rest = counted.text[mentions[0].end :] if len(mentions) == 1 and not mentions[0].start else ""
    return re.fullmatch(r" [a-z]{3,}s[.!]?", rest) is not None


def _rounds_to(fine: float, coarse: float) -> bool:
    """Return whether a number is another rounded to fewer decimals, two digits being left.

    Two digits keep the difference within 5%. Two whole numbers never round to each other, nor does
    anything round to what may be a year: years and counts are the same or they are not.
    """
    if coarse.is_integer() and 1000 <= coarse <= 2100:
        return False
    short, long = Decimal(repr(coarse)).normalize(), Decimal(repr(fine)).normalize()
    places = min(int(short.as_tuple().exponent), 0)
    if int(long.as_tuple().exponent) >= places or abs(short).scaleb(-places) < 10:
        return False
    if not -30 < long.adjusted() < 15:
        return False
    return long.quantize(Decimal(1).scaleb(places), ROUND_HALF_UP) == short


def _same_items(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether two lists hold the same items, as multisets."""
    return Counter(map(_item_key, a)) == Counter(map(_item_key, b))


def _item_key(item: str) -> tuple[str, ...]:
    """Return what makes two items of lists the same: the value and unit, or the words."""
    if number := whole_number(item):
        return (repr(number.value), number.unit.strip("%"))
    return comparison_key(item)


def _same_text(a: str, b: str) -> bool:
    number_a, number_b = whole_number(a), whole_number(b)
    if number_a and number_b:
        return _same_number(number_a, number_b)
    key_a, key_b = comparison_key(a), comparison_key(b)
    return any(
        one == other or _names_the_count(one, other) or _names_the_place(one, other)
        for one, other in ((key_a, key_b), (key_b, key_a))
    )


def _names_the_place(bare: tuple[str, ...], named: tuple[str, ...]) -> bool:
    """Return whether one text is the other without "in", "on" or "at" before it."""
    return len(named) > 1 and named[0] in LOOSE_PLACES and named[1:] == bare


def _names_the_count(bare: tuple[str, ...], named: tuple[str, ...]) -> bool:
    """Return whether one text is the numbers that the other starts with and says of what."""
    rest = named[len(bare) :]
    return (
        0 < len(rest) <= 2
        and named[: len(bare)] == bare
        and all(word[-1].isdigit() for word in bare)
        and all(len(word) > 2 and word.isalpha() for word in rest)  # "12 b" is another than "12".
    )


def _same_list(a: str, b: str) -> bool:
    """Return whether two short texts are lists of two items or more, and the same ones.

    Numbers in round brackets are a tuple, such as a position: in the same order.
    """
    items_a, items_b = read_items(a) or (), read_items(b) or ()
    if min(len(items_a), len(items_b)) < 2:
        return False
    if TUPLE.fullmatch(a) or TUPLE.fullmatch(b):
        return items_a == items_b
    return _same_items(items_a, items_b)


def _numbers(words: Counter[str]) -> dict[str, int]:
    return {word: count for word, count in words.items() if word[-1].isdigit()}


def _negated(words: Counter[str]) -> bool:
    return bool(_NEGATIONS & words.keys()) or any(word.endswith("n't") for word in words)
