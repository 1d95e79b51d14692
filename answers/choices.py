"""Read the letter of a choice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from string import ascii_uppercase
from typing import Literal

from .final_answer import FinalAnswer, declines, hedges, leaves_undecided
from .numbers import whole_number
from .plain_text import bare, plain, sentences, word_list
from .short_texts import comparison_key
from .yes_no import read_yes_no

Status = Literal["chosen", "rejected", "named"]

# A letter that stands alone; with the word or the brackets that announce it.
_LETTER = re.compile(
    r"(?P<word>\b(?:option|choice|letter|answer) ?|选项? ?)?(?P<open>[(\[\"'])?"
    r"(?<![^\W_选项是])(?<!\w')(?P<letter>[A-Za-z])(?![A-Za-z0-9_])(?!'\w)(?P<close>[)\]\"'.:]+)?",
    re.IGNORECASE,
)
_CHOSEN_BEFORE = re.compile(
    r"(?:\b(?:is|be|answer|choose|chose|choosing|pick|select|selected|with|say|it's|that's"
    r"|(?:so|thus|therefore|hence),?|leaves|leaving|lean(?:ing)? towards?)"
    r"|[:=→]|->|是|[故应]?选择?) ?"
    r"(?:probably |likely |clearly |only |us with )?(?:the )?$",
    re.IGNORECASE,
)
_CHOSEN_AFTER = re.compile(
    r" ?(?:is|was|would be|must be|seems|fits|matches) (?:the )?(?:\w+ )?"
    r"(?:correct|right|best|true|answer)|,? (?:because|since)\b|是?正确",
    re.IGNORECASE,
)
_REJECTED_BEFORE = re.compile(
    r"(?:\b(?:not|neither|nor|rules? out|ruled out|eliminate|exclude|discard|reject"
    r"|instead of|rather than|than)|n't(?: be)?|不是) ?(?:the )?$",
    re.IGNORECASE,
)
_REJECTED_AFTER = re.compile(
    r" ?(?:(?:is|was|seems|looks|can|could|must|does|do) ?(?:not|n't)\b|isn't|doesn't|can't"
    r"|(?:is|was|can be|must be|looks|seems) (?:\w+ )?(?:wrong|incorrect|false|ruled out|excluded"
    r"|eliminated))|不(?:是|对|正确)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[\s,/&\"')\].]*+(?:(?:and|or)\b)?[\s\"'(\[]*+", re.IGNORECASE)
_VERB_AFTER_A = re.compile(
    r" (?:is|was|and|or|but|not|because|since|would|must|fits|seems)\b"
    r"|, (?:not|rather than|instead of)\b|\W*$"
)
_NEAR = 40

_NEGATIONS = frozenset(word_list("not no neither nor than without never instead"))
_VERBS = frozenset(word_list("is are was were can could does do would should"))
_TAKEN_BACK = re.compile(r"no\b(?! doubt)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LetterMention:
    """A letter of an option in a sentence, and what the sentence says of it."""

    letter: str
    status: Status


def letter_mentions(sentence: str, *, marked: bool) -> list[LetterMention]:
    """Return the letters that a sentence names.

    Args:
        sentence: A plain sentence.
        marked: Whether all of the sentence is the answer, so that a letter it names without
            rejecting it is chosen.
    """
    found: list[LetterMention] = []
    end = listed = 0
    for match in _LETTER.finditer(sentence):
        announced = bool(match["word"] or (match["open"] and match["close"]))
        if not announced and not _is_letter(match, sentence):
            continue
        before = sentence[max(0, match.start() - _NEAR) : match.start()]
        after = sentence[match.end() : match.end() + _NEAR]
        at_start = not before and (marked or bool(match["close"]))
        status: Status = "named"
        if _REJECTED_BEFORE.search(before) or _REJECTED_AFTER.match(after):
            status = "rejected"
        elif found and _JOINED.fullmatch(sentence, end, match.start()):
            status = found[-1].status
        elif (
            at_start
            or (announced and (marked or match["word"] == "选"))
            or _CHOSEN_BEFORE.search(before)
            or _CHOSEN_AFTER.match(after)
        ):
            status = "chosen"
        found.append(LetterMention(match["letter"].upper(), status))
        listed += at_start or (status == "named" and bool(match["close"]))
        end = match.end()
    if listed > 1:  # "A) x B) y" only repeats the options.
        return [LetterMention(mention.letter, "named") for mention in found]
    return found


def _is_letter(match: re.Match[str], sentence: str) -> bool:
    """Return whether a letter that nothing announces is an option's: no article, no pronoun."""
    letter = match["letter"]
    if letter == "I" and not match["close"]:
        return False
    if letter == "A" and not match["close"]:
        return _VERB_AFTER_A.match(sentence, match.end()) is not None
    return letter.isupper()


def named_options(words: Sequence[str], options: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the letters of the options whose words occur together in a text and are not negated.

    Args:
        words: The words of the text, as compared.
        options: For each letter, the words of its option.
    """
    longest_first = sorted(options.items(), key=lambda option: -len(option[1]))
    named: set[str] = set()
    position = 0
    while position < len(words):
        for letter, option in longest_first:
            if option and tuple(words[position : position + len(option)]) == option:
                before = words[max(0, position - 2) : position]
                position += len(option) - 1
                if not any(map(_negates, before)) and not _denied(words[position + 1 :][:2]):
                    named.add(letter)
                break
        position += 1
    return named


def _negates(word: str) -> bool:
    return word in _NEGATIONS or word.endswith("n't")


def _denied(following: Sequence[str]) -> bool:
    """Return whether words deny what they follow ("blue is not the color", "red isn't it")."""
    return any(word.endswith("n't") for word in following[:1]) or (
        tuple(following[1:]) == ("not",) and following[0] in _VERBS
    )


_LETTERS_IF_UNKNOWN = ascii_uppercase[:10]

_LETTER_FIRST = re.compile(
    r"(?:(?:the )?(?:(?:correct|best|right) )?(?:option|choice|answer|letter) ?(?:is )?:? ?"
    r"|选项? ?)?"
    r"[(\[\"'$]*(?P<letter>[A-Za-z])(?P<mark>[)\]\"'.:,-]+| -|(?= )|$) ?(?P<rest>.*)",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"(?:so|thus|therefore|hence|overall|in conclusion|in summary|finally)\b", re.IGNORECASE
)
_LISTED_LETTERS = re.compile(r"(?<![\w'])[A-Z]\)? ?(?:and|or|&|/|,) ?\(?[A-Z](?![\w'])")
_LETTER_A = re.compile(r"(?<![\w'])[Aa](?![\w'])")
_FEW_SENTENCES = 2


def read_choice(answer: FinalAnswer, choices: Sequence[str] = (), question: str = "") -> str | None:
    """Return the letter of the one option that a final answer chooses, or None.

    An answer that is an option (its letter, its text, or both) counts as it stands. In a sentence a
    letter counts where the sentence makes it the answer ("so it must be B", "C is correct"), and an
    option's text where no other option is named. Articles, and letters on the way, do not count.

    Args:
        answer: The final answer.
        choices: The texts of the options; without any, the letters A to J are possible.
        question: What was asked; matters where the options are yes and no.
    """
    options = _Options(choices)
    lines = [answer.first_line] if answer.marked else options.without_list(answer.text.split("\n"))
    said = [sentence for line in lines for sentence in sentences(line)]
    if not said:
        return None
    ends = {lines[0], lines[-1], said[0], said[-1]}
    whole = {letter for end in ends if (letter := options.whole(end)) is not None}
    if whole:
        return options.one(whole)
    if declines("\n".join(said)):
        return options.undecided() if leaves_undecided("\n".join(said)) else None
    return options.one(_chosen_letters(said, marked=answer.marked)) or options.by_text(
        said, answer, question
    )


def _chosen_letters(said: Sequence[str], *, marked: bool) -> set[str]:
    """Return the letters that sentences choose: all of them, or those of a conclusion."""
    chosen: set[str] = set()
    for sentence in said:
        if hedges(sentence) or sentence.endswith("?"):
            continue
        mentions = letter_mentions(sentence, marked=marked)
        found = {mention.letter for mention in mentions if mention.status == "chosen"}
        if _TAKEN_BACK.match(sentence) or (found and _CONCLUSION.match(sentence)):
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
        """Return the only one of these letters, if it belongs to an option."""
        letter = next(iter(letters)) if len(letters) == 1 else ""
        return letter if letter and letter in self._letters else None

    def whole(self, text: str) -> str | None:
        """Return the letter of the option that a text is, as letter, text or both.

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

    def without_list(self, lines: list[str]) -> list[str]:
        """Return the lines without a list of several options that they begin with."""
        named = list(takewhile(bool, map(self.whole, lines[: len(self._letters)])))
        is_list = 1 < len(set(named)) == len(named) < len(lines)
        return lines[len(named) :] if is_list else lines

    def undecided(self) -> str | None:
        """Return the letter of the only option that says the question cannot be decided."""
        return self.one({letter for letter, text in self._texts.items() if leaves_undecided(text)})

    def by_text(self, said: Sequence[str], answer: FinalAnswer, question: str) -> str | None:
        """Return the letter of the only option whose text a short answer or a conclusion names."""
        if {("yes",), ("no",)} <= set(self._keys.values()):
            verdict = read_yes_no(answer.text, question)
            return None if verdict is None else self._with_text("yes" if verdict else "no") or None
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
        """Return the letter of the option with this text or number; "" if several have it."""
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
