"""Read yes or no, in English; short answers in Chinese too."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .final_answer import declines, hedges
from .plain_text import bare, content_words, sentences, word_list

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
    r"|^no (?:sign|trace|evidence) of\b|\bnowhere\b"
    r"|\b(?:image|picture|photo|scene|it) (?:lacks|is (?:devoid|free) of)\b",
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
_DENIED_CLAIM = re.compile(
    r"it(?: is|'s) (?:not (?:true|correct|the case)|false|untrue|incorrect|wrong) that "
    r"(?=there (?:is|are|was|were) )",
    re.IGNORECASE,
)
_NONE_OF_IT = re.compile(r"no(?: \w+){1,3}", re.IGNORECASE)
_EXISTENCE = re.compile(r"(?:there(?: is| are|'s)|i (?:can )?see)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a clause answers, and whether it names what the question asks about."""

    value: bool
    to_the_point: bool


def is_negative(text: str) -> bool:
    """Return whether a plain text holds a negation, whatever it denies."""
    return _NEGATION.search(text) is not None


def clauses(sentence: str) -> list[str]:
    """Return the clauses of a plain sentence."""
    parts = _CLAUSE_BREAK.split(_IDIOM.sub("", sentence))
    return [clause for part in parts if (clause := part.strip(" .!?\"'-"))]


def statements(sentence: str, question: str) -> list[Statement]:
    """Return what the clauses of a sentence affirm or deny of the question; most do neither.

    To a question for existence: a denial ("there is no ...", whatever it names: it may be a
    synonym), and an affirmation of all that was asked for. To any other question: a clause that
    repeats its words in their order. With "" for a question, any "there is ...". A clause with two
    negations states nothing here: which of them denies which is not told by words alone.
    """
    return [found for clause in clauses(sentence) if (found := _statement(clause, question))]


def _statement(clause: str, question: str) -> Statement | None:
    if denied := _DENIED_CLAIM.match(clause):
        claim = _statement(clause[denied.end() :], question)
        return claim and Statement(not claim.value, claim.to_the_point)
    if hedges(clause) or _DOUBLE_NEGATION.search(clause):
        return None
    asked, said = _subject(question), _subject(clause)
    negated = is_negative(_LACK.sub("", clause))
    if _GONE.search(clause) and _GONE_WORDS.isdisjoint(asked):
        about_it = not asked or [word for word in said if word not in _GONE_WORDS] == asked
        if negated or not about_it or not _ASKS_FOR_EXISTENCE.search(question):
            return None
        return Statement(value=False, to_the_point=bool(asked))
    if not _ASKS_FOR_EXISTENCE.search(question):
        repeats = bool(asked) and said == asked
        return Statement(value=not negated, to_the_point=True) if repeats else None
    to_the_point = bool(asked) and _in_order(asked, said)
    about_it = to_the_point or not asked
    if _DENIAL.search(clause) or (about_it and _NONE_OF_IT.fullmatch(clause)):
        return Statement(value=False, to_the_point=to_the_point)
    if not negated and (to_the_point or (not asked and _EXISTENCE.match(clause))):
        return Statement(value=True, to_the_point=to_the_point)
    return None


def _subject(text: str) -> list[str]:
    """Return the words that tell what a question or clause is about."""
    return [word for word in content_words(text) if word not in _SCENE_WORDS]


def _in_order(words: Iterable[str], among: Iterable[str]) -> bool:
    """Return whether all words occur among the others, in their order."""
    rest = iter(among)
    return all(word in rest for word in words)


_WHOLE = dict.fromkeys(("1", "true", "y", "t"), True) | dict.fromkeys(
    ("0", "false", "n", "f", "none"), False
)

_ENDS = r"(?= ?$| ?[,.!;:-])"
# Before a noun ("no other animals") "no" denies the noun; alone or before a pronoun it answers.
_NO_ALONE = (
    r"\bno\b(?!\.? ?\d)(?= ?$| ?[^\w '\"-]|['\"]|-\W| -"
    r"| (?:there|it|i|he|she|they|we|this|that|these|those|the|no|none|not)\b)"
)
# A "yes" within a row of words (a table, a tally) is none.
_YES = r"(?:yes|yeah|yep|yup|sí|oui|sim)\b"
_YES_ALONE = (
    rf"^\W{{0,3}}{_YES}"
    rf"|\b(?:so|is|say|but|then|thus|therefore|actually|probably|definitely),? {_YES}"
    rf"|(?<!not )\b{_YES}(?= ?$| ?[,.!?;:)\"']| (?:because|since|there|it|i)\b)"
)
_SURE = r"(?:of course|certainly|definitely|absolutely)"
_CLAIM = r"\b(?:that|this|it|statement|claim)(?: is|'s)"
_VERDICT = re.compile(
    r"(?P<both>\b(?:yes|no) ?(?:and|or|/|&) ?(?:yes|no)\b)"
    rf"|(?P<yes>{_YES_ALONE}"
    rf"|^(?:correct|true|affirmative|indeed|sure|{_SURE}){_ENDS}|^i (?:think|believe) so\b"
    rf"|{_CLAIM} (?:correct|true)\b(?! that\b)|\bthat(?: is|'s) right\b"
    r"|^not only\b(?!.*\b(?:no|not|none)\b|.*n't\b))"
    rf"|(?P<no>{_NO_ALONE}|\b(?:nope|nah)\b|^(?:incorrect|false|wrong|negative){_ENDS}"
    rf"|^not (?:at all|really|that i can (?:see|tell))\b|\b{_SURE} not\b"
    r"|\bi (?:do not|don't) think so\b"
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
_QUOTED = re.compile(r"(?<=\w) \"[^\"\n]*\w \w[^\"\n]*\"")  # what a sign says, no verdict
_CONDITION = re.compile(r"\W*(?:only )?(?:if|unless)\b", re.IGNORECASE)
_ASKED = re.compile(r"(?:\?|吗)[\"')\s.]*$")
_APOLOGY = re.compile(r"^(?:i am |i'm )?sorry,? (?:but )?", re.IGNORECASE)
_TURN = re.compile(
    r"\b(?:actually|wait|rather|correction|i mean|on second (?:thought|look)|so|thus|therefore"
    r"|hence|overall|in (?:conclusion|summary|short|fact)|final(?:ly)?)\b",
    re.IGNORECASE,
)


def read_yes_no(text: str, question: str = "") -> bool | None:
    """Return what a final answer says to a yes/no question, or None.

    A verdict word wins over statements ("Yes, there is no doubt"). Two opposite verdicts are none,
    unless the later one is a correction or a conclusion ("No... actually yes"). Without a verdict,
    a statement counts where it affirms or denies what the question asks about. What the answer
    asks itself does not count; after a negative question ("No car? Wrong.") nothing is clear.

    Args:
        text: A final answer, plain.
        question: What was asked; with "" any "there is ..." is taken to be about it.
    """
    text = _QUOTED.sub("", _APOLOGY.sub("", text))
    if (whole := _WHOLE.get(bare(text).casefold())) is not None:
        return whole
    verdicts: list[bool] = []
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


def _only(values: Sequence[bool]) -> bool | None:
    return values[0] if len(set(values)) == 1 else None


def _verdict(sentence: str, question: str) -> bool | Literal["both"] | None:
    """Return the verdict word of a sentence; "both" where it contradicts itself or is not sure."""
    if match := _VERDICT_CHINESE.match(sentence):
        return "both" if match["both"] else not match["no"]
    matches = list(_VERDICT.finditer(sentence))
    if not matches:
        return None
    if any(match["both"] for match in matches):
        return "both"
    values = [not match["no"] for match in matches]
    first, last = matches[0], matches[-1]
    if len(set(values)) > 1 and not _TURN.search(sentence, first.end(), last.start()):
        return "both"
    lead = clauses(sentence[: first.start()])
    rest = sentence[last.end() :]
    contradicted = any(
        statement.to_the_point and statement.value != values[-1]
        for statement in statements(rest, question)
    )
    if (lead and hedges(lead[-1])) or _CONDITION.match(rest) or declines(rest) or contradicted:
        return "both"
    return values[-1]
