"""Finds the options that a sentence names, and tells which of them it chooses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .words import word_list

Status = Literal["chosen", "rejected", "named"]

# A letter that stands alone; with the word or the brackets that announce it.
_LETTER = re.compile(
    r"(?P<word>\b(?:option|choice|letter|answer) ?|选项? ?)?(?P<open>[(\[\"'])?"
    r"(?<![^\W_选项是])(?<!\w')(?P<letter>[A-Za-z])(?![A-Za-z0-9_])(?!'\w)(?P<close>[)\]\"'.:]+)?",
    re.IGNORECASE,
)
_CHOSEN_BEFORE = re.compile(
    r"(?:\b(?:is|be|answer|choose|chose|choosing|pick|select|selected|with|say|it's|that's"
    r"|(?:so|thus|therefore|hence),?)|[:=→]|->|是|选) ?(?:probably |likely |clearly )?(?:the )?$",
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
_VERB_AFTER_A = re.compile(r" (?:is|was|and|or|but|not|because|since|would|must|fits|seems)\b|\W*$")
_NEAR = 40

_NEGATIONS = frozenset(word_list("not no neither nor than without isn't aren't never"))


@dataclass(frozen=True, slots=True)
class LetterMention:
    """A letter of an option in a sentence, and what the sentence says of it."""

    letter: str
    status: Status


def letter_mentions(sentence: str, *, marked: bool) -> list[LetterMention]:
    """The letters that a sentence names.

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
            or (marked and announced)
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
    """Whether a letter that nothing announces is an option's: no article, no pronoun."""
    letter = match["letter"]
    if letter == "I" and not match["close"]:
        return False
    if letter == "A" and not match["close"]:
        return _VERB_AFTER_A.match(sentence, match.end()) is not None
    return letter.isupper()


def named_options(words: Sequence[str], options: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The letters of the options whose words occur together in a text and are not negated.

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
                if not _NEGATIONS.intersection(words[max(0, position - 2) : position]):
                    named.add(letter)
                position += len(option) - 1
                break
        position += 1
    return named
