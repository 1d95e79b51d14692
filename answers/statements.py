"""Reads what the statements of a text mean as an answer to a yes/no question.

"Is there a dog?" is often answered by "There is a dog on the mat." or "I do not see one."
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .refusal import hedges
from .words import content_words, word_list

YesNo = Literal["yes", "no"]

_ASKS_FOR_EXISTENCE = re.compile(
    r"^\s*$|\b(?:is|are|was|were) there\b|\b(?:see|spot|find|contains?|shows?|includes?|visible"
    r"|present|appears?|depicted)\b|\bin (?:the|this) (?:image|picture|photo|scene)\b",
    re.IGNORECASE,
)
_SCENE_WORDS = frozenset(
    word_list(
        "image picture photo photograph scene see spot find contain show shown include visible "
        "present appear depicted not no please answer question using single word phrase yes one "
        "just"
    )
)
_CLAUSE_BREAK = re.compile(
    r"[,;:()]| - |\b(?:but|however|although|though|while|because|only|just)\b", re.IGNORECASE
)
_IDIOM = re.compile(r"\bnot only\b|\bno (?:doubt|question)\b", re.IGNORECASE)
_LACK = re.compile(r"\b(?:with no|without)\b.*", re.IGNORECASE)  # "a dog with no collar"
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|neither|nor|cannot|nowhere)\b|n't\b",
    re.IGNORECASE,
)
_SEEN = r"(?:present|visible|there|in|shown|seen|depicted|found)\b"
_DENIAL = re.compile(
    r"\bthere(?: is| are| was| were|'s)(?: not|n't| no\b| none\b| neither\b| nothing\b)"
    r"|\b(?:do|does|did|can|could)(?: not|n't| ?not) (?:actually |clearly )?"
    r"(?:see|spot|find|detect|notice|observe|contain|show|include|have|appear)\b"
    rf"|\b(?:is|are|was|were)(?: not|n't) (?:\w+ ){{0,2}}{_SEEN}"
    r"|\bi (?:can |could )?(?:see|find|spot) (?:no|none|nothing|neither)\b"
    rf"|^(?:no|neither|none|nothing) \w.*\b{_SEEN}"
    r"|^no (?:sign|trace|evidence) of\b|\bnowhere\b",
    re.IGNORECASE,
)
# A predicate ("the dog is missing"), not what something lacks ("is missing a wheel").
_GONE = re.compile(
    r"\b(?:is|are|was|were) (?:\w+ ){0,2}?(?:absent|missing)(?= ?$| (?:from|in|here)\b)",
    re.IGNORECASE,
)
_GONE_WORDS = frozenset(word_list("absent missing"))
_SAYS_NO = r"(?:\b(?:no|not|never|none|nothing|nobody|neither|cannot|nowhere|without)\b|n't\b)"
# "There is no car that is not red"; not "no cats and no dogs".
_DOUBLE_NEGATION = re.compile(
    rf"(?:{_SAYS_NO}|\b(?:false|wrong|incorrect|untrue)\b)"
    rf"(?:(?!\b(?:and|or|nor)\b).)*?{_SAYS_NO}",
    re.IGNORECASE,
)
_NONE_OF_IT = re.compile(r"no(?: \w+){1,3}", re.IGNORECASE)
_EXISTENCE = re.compile(r"(?:there(?: is| are|'s)|i (?:can )?see)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a clause answers, and whether it names what the question asks about."""

    value: YesNo
    to_the_point: bool


def is_negative(text: str) -> bool:
    """Whether a plain text holds a negation, whatever it denies."""
    return _NEGATION.search(text) is not None


def clauses(sentence: str) -> list[str]:
    """The clauses of a plain sentence."""
    parts = _CLAUSE_BREAK.split(_IDIOM.sub("", sentence))
    return [clause for part in parts if (clause := part.strip(" .!?\"'-"))]


def statements(sentence: str, question: str) -> list[Statement]:
    """What the clauses of a sentence affirm or deny of the question; most do neither.

    To a question for existence: a denial ("there is no ...", whatever it names: it may be a
    synonym), and an affirmation of all that was asked for. To any other question: a clause that
    repeats its words in their order. With "" for a question, any "there is ...". A clause with two
    negations states nothing here: which of them denies which is not told by words alone.
    """
    return [found for clause in clauses(sentence) if (found := _statement(clause, question))]


def _statement(clause: str, question: str) -> Statement | None:
    if hedges(clause) or _DOUBLE_NEGATION.search(clause):
        return None
    asked, said = _subject(question), _subject(clause)
    negated = is_negative(_LACK.sub("", clause))
    if _GONE.search(clause) and _GONE_WORDS.isdisjoint(asked):
        about_it = not asked or [word for word in said if word not in _GONE_WORDS] == asked
        if negated or not about_it or not _ASKS_FOR_EXISTENCE.search(question):
            return None
        return Statement("no", to_the_point=bool(asked))
    if not _ASKS_FOR_EXISTENCE.search(question):
        repeats = bool(asked) and said == asked
        return Statement("no" if negated else "yes", to_the_point=True) if repeats else None
    to_the_point = bool(asked) and _in_order(asked, said)
    about_it = to_the_point or not asked
    if _DENIAL.search(clause) or (about_it and _NONE_OF_IT.fullmatch(clause)):
        return Statement("no", to_the_point)
    if not negated and (to_the_point or (not asked and _EXISTENCE.match(clause))):
        return Statement("yes", to_the_point)
    return None


def _subject(text: str) -> list[str]:
    """The words that tell what a question or clause is about."""
    return [word for word in content_words(text) if word not in _SCENE_WORDS]


def _in_order(words: Iterable[str], among: Iterable[str]) -> bool:
    """Whether all words occur among the others, in their order."""
    rest = iter(among)
    return all(word in rest for word in words)
