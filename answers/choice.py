"""Reads the letter of a choice out of a final answer."""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from .choice_mentions import letter_mentions, named_options
from .final_answer import FinalAnswer
from .number import whole_number
from .plain_text import bare, plain, sentences
from .refusal import declines, hedges
from .text import comparison_key
from .yes_no import read_yes_no

_LETTERS_IF_UNKNOWN = ascii_uppercase[:10]

_LETTER_FIRST = re.compile(
    r"(?:(?:the )?(?:(?:correct|best|right) )?(?:option|choice|answer|letter) ?(?:is )?:? ?"
    r"|选项? ?)?"
    r"[(\[\"']*(?P<letter>[A-Za-z])(?P<mark>[)\]\"'.:,-]+| -|(?= )|$) ?(?P<rest>.*)",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"(?:so|thus|therefore|hence|overall|in conclusion|in summary|finally)\b", re.IGNORECASE
)
_LISTED_LETTERS = re.compile(r"(?<![\w'])[A-Z]\)? ?(?:and|or|&|/|,) ?\(?[A-Z](?![\w'])")
_LETTER_A = re.compile(r"(?<![\w'])[Aa](?![\w'])")
_FEW_SENTENCES = 2


def read_choice(answer: FinalAnswer, choices: Sequence[str] = (), question: str = "") -> str | None:
    """The letter of the one option that a final answer chooses, or None.

    An answer that is an option (its letter, its text, or both) counts as it stands. In a sentence a
    letter counts where the sentence makes it the answer ("so it must be B", "C is correct"), and an
    option's text where no other option is named. Articles, and letters on the way, do not count.

    Args:
        answer: The final answer.
        choices: The texts of the options; without any, the letters A to J are possible.
        question: What was asked; matters where the options are yes and no.
    """
    options = _Options(choices)
    lines = [answer.first_line] if answer.marked else answer.text.split("\n")
    said = [sentence for line in lines for sentence in sentences(line)]
    if not said:
        return None
    ends = {lines[0], lines[-1], said[0], said[-1]}
    whole = {letter for end in ends if (letter := options.whole(end)) is not None}
    if whole:
        return options.one(whole)
    if declines("\n".join(said)):
        return None
    return options.one(_chosen_letters(said, marked=answer.marked)) or options.by_text(
        said, answer, question
    )


def _chosen_letters(said: Sequence[str], *, marked: bool) -> set[str]:
    """The letters that sentences choose: all of them, or those of a conclusion."""
    chosen: set[str] = set()
    for sentence in said:
        if hedges(sentence) or sentence.endswith("?"):
            continue
        mentions = letter_mentions(sentence, marked=marked)
        found = {mention.letter for mention in mentions if mention.status == "chosen"}
        if found and _CONCLUSION.match(sentence):
            chosen = set()
        chosen -= {mention.letter for mention in mentions if mention.status == "rejected"}
        chosen |= found
    return chosen


class _Options:
    """The options of one question, by letter."""

    def __init__(self, choices: Sequence[str]) -> None:
        self._letters = ascii_uppercase[: len(choices)] if choices else _LETTERS_IF_UNKNOWN
        self._texts = dict(zip(self._letters, map(plain, choices), strict=False))
        self._keys = {letter: comparison_key(text) for letter, text in self._texts.items()}

    def one(self, letters: set[str]) -> str | None:
        """The only one of these letters, if it belongs to an option."""
        letter = next(iter(letters)) if len(letters) == 1 else ""
        return letter if letter and letter in self._letters else None

    def whole(self, text: str) -> str | None:
        """The letter of the option that a text is, as letter, text or both.

        None if it is no option; "" if it is two at once, so that it must not be read otherwise.
        """
        by_text = self._with_text(text)
        match = _LETTER_FIRST.fullmatch(text.strip())
        if not match:
            return by_text
        letter, rest = match["letter"].upper(), bare(match["rest"])
        by_rest = self._with_text(rest) if rest else letter
        if not rest or set(rest.upper().split()) == {letter} or by_rest == letter:
            return letter if by_text in (None, letter) else ""
        return by_text if by_rest is None or not match["mark"].strip() else ""

    def by_text(self, said: Sequence[str], answer: FinalAnswer, question: str) -> str | None:
        """The letter of the only option whose text a short answer, or its conclusion, names."""
        if {("yes",), ("no",)} <= set(self._keys.values()):
            verdict = read_yes_no(answer.text, question)
            return self._with_text(verdict) or None if verdict else None
        if answer.marked:
            scope = said[0]
        elif len(said) <= _FEW_SENTENCES:
            scope = " ".join(said)
        elif _CONCLUSION.match(said[-1]):
            scope = said[-1]
        else:
            return None
        if hedges(scope):
            return None
        letter_texts = any(len(key) == 1 and len(key[0]) == 1 for key in self._keys.values())
        if letter_texts and _LISTED_LETTERS.search(scope):
            return None
        named = named_options(comparison_key(scope), self._keys)
        if _LETTER_A.search(scope):  # An article, or the option whose text is this letter.
            named |= {letter for letter, key in self._keys.items() if key == ("a",)}
        return self.one(named)

    def _with_text(self, text: str) -> str | None:
        """The letter of the option with this text or number; "" if there are several; or None."""
        key = comparison_key(text)
        letters = [letter for letter, option in self._keys.items() if option == key]
        if not letters and (number := whole_number(text)):
            same = {letter: whole_number(option) for letter, option in self._texts.items()}
            letters = [
                letter
                for letter, other in same.items()
                if other
                and other.value == number.value
                and (other.unit == number.unit or not (other.unit and number.unit))
            ]
        if not letters:
            return None
        return letters[0] if len(letters) == 1 else ""
