"""Reads "yes" or "no" out of a final answer, in English; short answers in Chinese too."""

import re
from dataclasses import dataclass
from typing import Literal

from .plain_text import bare, sentences
from .refusal import declines, hedges
from .words import content_words

YesNo = Literal["yes", "no"]

_WHOLE: dict[str, YesNo] = {
    "1": "yes", "true": "yes", "y": "yes", "t": "yes",
    "0": "no", "false": "no", "n": "no", "f": "no", "none": "no",
}  # fmt: skip

# Before a noun ("no other animals") "no" denies the noun; alone or before a pronoun it answers.
_VERDICT = re.compile(
    r"(?P<both>\b(?:yes|no) ?(?:and|or|/|&) ?(?:yes|no)\b)"
    r"|(?P<yes>\b(?:yes|yeah|yep|yup)\b"
    r"|^(?:correct|true|right|affirmative|indeed|certainly|definitely|absolutely|sure|of course)"
    r"(?= ?$| ?[,.!;:-])|^i (?:think|believe) so\b"
    r"|\b(?:that|this|it|statement|claim) is (?:correct|true|right)\b"
    r"|^not only\b(?!.*\b(?:no|not|none)\b|.*n't\b))"
    r"|(?P<no>\bno\b(?= ?$| ?[^\w '\"-]|['\"]|-\W| -"
    r"| (?:there|it|i|he|she|they|we|this|that|these|those|the|no|none|not)\b)|\b(?:nope|nah)\b"
    r"|^(?:incorrect|false|wrong|negative)(?= ?$| ?[,.!;:-])|^not (?:at all|really)\b"
    r"|\b(?:of course|certainly|definitely|absolutely) not\b|\bi (?:do not|don't) think so\b"
    r"|\b(?:that|this|it|statement|claim) is (?:not (?:correct|true|right)|incorrect|false|wrong)\b)",
    re.IGNORECASE,
)
_VERDICT_CJK = re.compile(
    r"(?P<no>不是|没有?|不(?!确定|知道|清楚|能)|否|无(?!法)|并非|错)|(?P<yes>是(?!否)|有(?!没有)|对(?!不起)|正确|存在)"
)
_TURN = re.compile(
    r"\b(?:actually|wait|rather|correction|i mean|on second (?:thought|look)|so|thus|therefore"
    r"|hence|overall|in (?:conclusion|summary|short|fact)|final(?:ly)?)\b",
    re.IGNORECASE,
)

_ABOUT_EXISTENCE = re.compile(
    r"^\s*$|\b(?:is|are|was|were) there\b|\b(?:see|spot|find|contains?|shows?|includes?|visible"
    r"|present|appears?|depicted)\b|\bin (?:the|this) (?:image|picture|photo|scene)\b",
    re.IGNORECASE,
)
_SCENE_WORDS = frozenset(
    "image picture photo photograph scene see spot find contain show shown include visible present "
    "appear depicted not no please answer question using single word phrase yes one just".split()
)
_CLAUSE_BREAK = re.compile(
    r"[,;:()]| - |\b(?:but|however|although|though|while|because|only|just)\b", re.IGNORECASE
)
_IDIOM = re.compile(r"\bnot only\b|\bno (?:doubt|question)\b", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|neither|nor|without|cannot|absent|missing|nowhere)\b"
    r"|n't\b",
    re.IGNORECASE,
)
_NOT = r"(?: not|n't)"
_DENIAL = re.compile(
    rf"\bthere(?: is| are| was| were|'s)(?:{_NOT}| no\b| none\b| neither\b| nothing\b)"
    rf"|\b(?:do|does|did|can|could){_NOT} \b(?:actually |clearly )?"
    r"(?:see|spot|find|detect|notice|observe|contain|show|include|have|appear)\b"
    r"|\bcannot (?:actually |clearly )?(?:see|spot|find|detect|notice|observe)\b"
    rf"|\b(?:is|are|was|were){_NOT} (?:\w+ ){{0,2}}(?:present|visible|there|in|shown|seen|depicted)\b"
    r"|\bi (?:can |could )?(?:see|find|spot) (?:no|none|nothing|neither)\b"
    r"|^(?:no|neither|none|nothing) \w.*\b(?:present|visible|there|in|shown|seen|depicted|found)\b"
    r"|^no(?: \w+){1,2}$|\b(?:absent|missing|nowhere)\b",
    re.IGNORECASE,
)
_EXISTENCE = re.compile(r"^(?:yes )?(?:there(?: is| are|'s)|i (?:can )?see)\b", re.IGNORECASE)


def read_yes_no(text: str, question: str = "") -> YesNo | None:
    """What a final answer says to a yes/no question, or None.

    A verdict word wins over statements ("Yes, there is no doubt"). Two opposite verdicts are none,
    unless the later one is a correction or a conclusion ("No... actually yes"). Without a verdict,
    a statement counts where it affirms or denies what the question asks about.

    Args:
        text: A final answer, plain.
        question: What was asked; with "" any "there is ..." is taken to be about it.
    """
    if whole := _WHOLE.get(bare(text).casefold()):
        return whole
    verdicts: list[YesNo] = []
    statements: list[_Statement] = []
    for sentence in sentences(text):
        verdict = _verdict(sentence, question)
        if verdict == "both" or (verdicts and declines(sentence)):
            return None
        if verdict is None:
            statements += _statements(sentence, question)
        else:
            if _TURN.match(sentence):
                verdicts.clear()
            verdicts.append(verdict)
    if verdicts:
        return _one(verdicts)
    if declines(text):
        return None
    to_the_point = [statement.value for statement in statements if statement.to_the_point]
    return _one(to_the_point or [statement.value for statement in statements])


def _one(values: list[YesNo]) -> YesNo | None:
    return values[0] if len(set(values)) == 1 else None


def _verdict(sentence: str, question: str) -> YesNo | Literal["both"] | None:
    """The verdict word of a sentence; "both" where the sentence contradicts itself."""
    if match := _VERDICT_CJK.match(sentence):
        return "no" if match["no"] else "yes"
    matches = list(_VERDICT.finditer(sentence))
    if not matches:
        return None
    if any(match["both"] for match in matches):
        return "both"
    values: list[YesNo] = ["no" if match["no"] else "yes" for match in matches]
    first, last = matches[0], matches[-1]
    if len(set(values)) > 1 and not _TURN.search(sentence, first.end(), last.start()):
        return "both"
    if hedges(_CLAUSE_BREAK.split(sentence[: first.start()])[-1]):
        return "both"
    rest = sentence[last.end() :]
    contradicted = any(
        statement.to_the_point and statement.value != values[-1]
        for statement in _statements(rest, question)
    )
    return "both" if contradicted or declines(rest) else values[-1]


@dataclass(frozen=True, slots=True)
class _Statement:
    value: YesNo
    to_the_point: bool  # whether it names what the question asks about


def _statements(sentence: str, question: str) -> list[_Statement]:
    """What the clauses of a sentence affirm or deny."""
    clauses = _CLAUSE_BREAK.split(_IDIOM.sub("", sentence))
    found = (_clause_statement(clause.strip(" .!?\"'-"), question) for clause in clauses)
    return [statement for statement in found if statement]


def _clause_statement(clause: str, question: str) -> _Statement | None:
    asked = [word for word in content_words(question) if word not in _SCENE_WORDS]
    said = [word for word in content_words(clause) if word not in _SCENE_WORDS]
    if not clause or hedges(clause):
        return None
    negated = _NEGATION.search(clause) is not None
    if not _ABOUT_EXISTENCE.search(question):
        echo = bool(asked) and said == asked and not clause.endswith("?")
        return _Statement("no" if negated else "yes", to_the_point=True) if echo else None
    to_the_point = bool(asked) and _in_order(asked, said)
    if _DENIAL.search(clause):
        return _Statement("no", to_the_point)
    # What no question is known for, or what names all that was asked for, in its order.
    if not negated and (to_the_point or (not asked and _EXISTENCE.search(clause))):
        return _Statement("yes", to_the_point)
    return None


def _in_order(words: list[str], among: list[str]) -> bool:
    """Whether all words occur among the others, in their order."""
    rest = iter(among)
    return all(word in rest for word in words)
