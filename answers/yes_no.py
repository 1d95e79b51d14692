"""Reads "yes" or "no" out of a final answer, in English; short answers in Chinese too."""

import re
from collections.abc import Sequence
from typing import Literal

from .plain_text import bare, sentences
from .refusal import declines, hedges
from .statements import Statement, YesNo, clauses, is_negative, statements

_WHOLE: dict[str, YesNo] = {
    "1": "yes", "true": "yes", "y": "yes", "t": "yes",
    "0": "no", "false": "no", "n": "no", "f": "no", "none": "no",
}  # fmt: skip

_ENDS = r"(?= ?$| ?[,.!;:-])"
# Before a noun ("no other animals") "no" denies the noun; alone or before a pronoun it answers.
_NO_ALONE = (
    r"\bno\b(?= ?$| ?[^\w '\"-]|['\"]|-\W| -"
    r"| (?:there|it|i|he|she|they|we|this|that|these|those|the|no|none|not)\b)"
)
# A "yes" within a row of words (a table, a tally) is none.
_YES = r"(?:yes|yeah|yep|yup)\b"
_YES_ALONE = (
    rf"^\W{{0,3}}{_YES}"
    rf"|\b(?:so|is|say|but|then|thus|therefore|actually|probably|definitely),? {_YES}"
    rf"|(?<!not )\b{_YES}(?= ?$| ?[,.!?;:)\"']| (?:because|since|there|it|i)\b)"
)
_SURE = r"(?:of course|certainly|definitely|absolutely)"
_CLAIM = r"\b(?:that|this|it|statement|claim) is"
_VERDICT = re.compile(
    r"(?P<both>\b(?:yes|no) ?(?:and|or|/|&) ?(?:yes|no)\b)"
    rf"|(?P<yes>{_YES_ALONE}"
    rf"|^(?:correct|true|affirmative|indeed|sure|{_SURE}){_ENDS}|^i (?:think|believe) so\b"
    rf"|{_CLAIM} (?:correct|true)\b(?! that\b)|\bthat(?: is|'s) right\b"
    r"|^not only\b(?!.*\b(?:no|not|none)\b|.*n't\b))"
    rf"|(?P<no>{_NO_ALONE}|\b(?:nope|nah)\b|^(?:incorrect|false|wrong|negative){_ENDS}"
    rf"|^not (?:at all|really)\b|\b{_SURE} not\b|\bi (?:do not|don't) think so\b"
    rf"|{_CLAIM} (?:not (?:correct|true)|incorrect|false|wrong)\b(?! that\b))",
    re.IGNORECASE,
)
_VERDICT_CHINESE = re.compile(
    # Both at once (是不是), and two negations (不是没有).
    r"(?P<both>(?P<word>.)[不没](?P=word)|[不没无非][^\s,.;!?]{0,2}[不没无])"
    r"|(?P<yes>没错|是(?!否)|有|对(?!不起)|正确|存在)"
    r"|(?P<no>不是|没(?!有?(?:问题|准|法|办法|关系))有?|不(?!确定|知道|清楚|能|错|一定|好说|太|见得)"
    r"|否|无(?!法)|并非|错)"
)
_ASKED = re.compile(r"(?:\?|吗)[\"')\s.]*$")
_APOLOGY = re.compile(r"^(?:i am |i'm )?sorry,? (?:but )?", re.IGNORECASE)
_TURN = re.compile(
    r"\b(?:actually|wait|rather|correction|i mean|on second (?:thought|look)|so|thus|therefore"
    r"|hence|overall|in (?:conclusion|summary|short|fact)|final(?:ly)?)\b",
    re.IGNORECASE,
)


def read_yes_no(text: str, question: str = "") -> YesNo | None:
    """What a final answer says to a yes/no question, or None.

    A verdict word wins over statements ("Yes, there is no doubt"). Two opposite verdicts are none,
    unless the later one is a correction or a conclusion ("No... actually yes"). Without a verdict,
    a statement counts where it affirms or denies what the question asks about. What the answer
    asks itself does not count; after a negative question ("No car? Wrong.") nothing is clear.

    Args:
        text: A final answer, plain.
        question: What was asked; with "" any "there is ..." is taken to be about it.
    """
    text = _APOLOGY.sub("", text)
    if whole := _WHOLE.get(bare(text).casefold()):
        return whole
    verdicts: list[YesNo] = []
    stated: list[Statement] = []
    for sentence in sentences(text):
        if _ASKED.search(sentence):
            if is_negative(sentence):
                return None
            continue
        verdict = _verdict(sentence, question)
        if verdict == "both" or (verdicts and declines(sentence)):
            return None
        if verdict is None:
            stated += statements(sentence, question)
        else:
            if _TURN.match(sentence):
                verdicts.clear()
            verdicts.append(verdict)
    if verdicts:
        return _only(verdicts)
    if declines(text):
        return None
    to_the_point = [statement.value for statement in stated if statement.to_the_point]
    return _only(to_the_point or [statement.value for statement in stated])


def _only(values: Sequence[YesNo]) -> YesNo | None:
    return values[0] if len(set(values)) == 1 else None


def _verdict(sentence: str, question: str) -> YesNo | Literal["both"] | None:
    """The verdict word of a sentence; "both" where it contradicts itself or is not sure."""
    if match := _VERDICT_CHINESE.match(sentence):
        return "both" if match["both"] else "no" if match["no"] else "yes"
    matches = list(_VERDICT.finditer(sentence))
    if not matches:
        return None
    if any(match["both"] for match in matches):
        return "both"
    values: list[YesNo] = ["no" if match["no"] else "yes" for match in matches]
    first, last = matches[0], matches[-1]
    if len(set(values)) > 1 and not _TURN.search(sentence, first.end(), last.start()):
        return "both"
    lead = clauses(sentence[: first.start()])
    rest = sentence[last.end() :]
    contradicted = any(
        statement.to_the_point and statement.value != values[-1]
        for statement in statements(rest, question)
    )
    if (lead and hedges(lead[-1])) or declines(rest) or contradicted:
        return "both"
    return values[-1]
