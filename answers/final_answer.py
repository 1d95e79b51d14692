"""Find the part of a model's output that states its answer, and tell refusals."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .plain_text import bare, plain, sentences

# "I cannot see a dog" answers whether there is one: only "see the image" counts here.
_CANNOT = r"(?:can ?not|can't|could ?not|couldn't|(?:not able|unable) to|do not|don't)"
_IMAGE = (
    r"(?:the |this |that |any |your )?"
    r"(?:images?|pictures?|photos?|charts?|figures?|documents?|diagrams?)"
)
_UNDECIDED = re.compile(
    rf"\b{_CANNOT} (?:really |clearly |reliably |possibly |be )*"
    r"(?:tell|say|determined?|know|decided?|answer(?:ed)?)\b"
    r"|\b(?:not|isn't|is no|there's no) (?:possible|way) to (?:tell|say|determine|know|answer)\b"
    r"|\b(?:hard|difficult|impossible) to (?:tell|say|determine|know)\b"
    r"|\b(?:not enough|insufficient|no) (?:information|context|data|details?)\b"
    r"|\bnot (?:show|contain|provide|give|have|include) (?:enough|sufficient)\b"
    r"|\b(?:unclear|undetermined|unanswerable|indeterminate|unsure|uncertain|not sure)\b"
    r"|^(?:unknown|n/?a|none given|not applicable|not available|not given|not stated"
    r"|not specified|not visible|not shown)\W*$|^no (?:label|answer|value)\b"
    "|无法|不能(?:确定|判断)|不知道|不确定",
    re.IGNORECASE | re.MULTILINE,
)
_UNWILLING = re.compile(
    rf"\b{_CANNOT} (?:really |clearly |reliably |directly |be )*(?:help|assist|provide|identify"
    r"|recogni[sz]e|make out|read (?:it|this|that|them)|name|disclose|share|comment|discuss|guess"
    r"|estimate|comply|count|verify|confirm|infer"
    rf"|(?:view|see|access|process|analy[sz]e|open|read)(?: (?:or|and) \w+)? {_IMAGE})\b"
    r"|\bI(?: am|'m) (?:not able|unable) to read\b|\bI (?:cannot|can't|can not) (?:clearly )?read\b"
    r"|\bI (?:must|have to|would|will have to)? ?decline\b"
    r"|\bI(?: will not|'ll not| won't| refuse)\b"
    r"|^(?:i am |i'm )?sorry\b|\bas an ai\b|\bi(?: am|'m) (?:just |only )?an ai\b"
    r"|\btoo (?:small|blurry|blurred|dark|far|faint) to (?:read|see|tell|make|recogni[sz]e)\b"
    r"|\b(?:illegible|unreadable)\b|^error:"
    "|不能(?:看|识别)|看不清|抱歉",
    re.IGNORECASE | re.MULTILINE,
)
_HEDGE = re.compile(r"\b(?:maybe|perhaps|possibly|might|could|may be|either|if|whether)\b", re.I)


def declines(text: str) -> bool:
    """Return whether a plain text says that it cannot or will not answer."""
    return leaves_undecided(text) or bool(_UNWILLING.search(text))


def leaves_undecided(text: str) -> bool:
    """Return whether a plain text says that the question cannot be decided; an option may be so."""
    return bool(_UNDECIDED.search(text))


def hedges(text: str) -> bool:
    """Return whether a plain text only names a possibility ("maybe", "could be")."""
    return bool(_HEDGE.search(text))


_THINK_TAG = re.compile(
    r"<(/?)(?:think|thinking|thought|reasoning|analysis|scratchpad)>", re.IGNORECASE
)
_ANSWER_TAG = re.compile(r"<answer>(.*?)(?:</answer>|$(?!\n))", re.IGNORECASE | re.DOTALL)
_ANSWER_KEY = re.compile(
    r"[{,] ?\n?[\"'](?:final[_ ])?answer[\"'] ?: ?(?:\"([^\"]{0,2000})\"|'([^']{0,2000})'"
    r"|(\[[^\]]{0,2000}\]|[^,}\n]*))",
    re.IGNORECASE,
)

# "Answer: X", "Final answer" as a heading above X, "答案是X".
_LABEL = (
    r"\banswers? ?(?:[:=]|- )|^(?:the )?(?:final|correct) answer$"
    r"|(?:答案|正确选项)(?:应该?)?(?:是|为|:)"
)
# "The answer is X", "the correct option would be X"; not "the answer is not X".
_STATEMENT = (
    r"\b(?:answer|(?:correct|best|right) (?:option|choice))(?: to (?:the|this|your) question)? "
    r"(?:is|was|would be|should be|must be|has to be)\b:?(?! not\b|n't)"
)
_BOX = r"\\f?box(?:ed)? ?\{"
_MARK = re.compile(
    f"(?P<label>{_LABEL})|(?P<statement>{_STATEMENT})|(?P<box>{_BOX})", re.IGNORECASE | re.MULTILINE
)
_BOX_CHARACTERS = 5000
_BETWEEN_BOXES = re.compile(r"\}[\s,;$]*(?:and|or|&)?[\s$]*")
_LABEL_FIRST = re.compile(r"(?:final )?answers?:\s*", re.IGNORECASE)
_MARKS_TRIED = 20  # From the last: an output that loops may hold thousands.

_SUPPOSITION = re.compile(
    r"\b(?:if|whether|unless|suppose|supposing|assum(?:e|ing)|could|might)\b[^.!?\n]*$",
    re.IGNORECASE,
)
_ADVERB = re.compile(
    r"^(?:(?:clearly|definitely|probably|likely|most likely|therefore|thus|indeed|simply) )+",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(
    r"^(?:explanation|reasoning|rationale|justification|because)\b", re.IGNORECASE | re.MULTILINE
)
# At the start of a sentence, also after "A." or "5.", which end none by themselves; within one
# only where it can mean nothing else.
_CORRECTION = re.compile(
    r"(?:(?<=[.!?;…\n])[\s\"')\]]*(?:but |no[,.]? |oh,? |hmm,? ){0,3}+(?:wait|actually|correction"
    r"|i misread|i made a mistake|on second (?:thought|look)|scratch that|i mean)"
    r"|(?<=[,-]) ?(?:but |oh,? )?(?:no,? (?:wait|actually)|scratch that|on second thought))\b",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"(?:so|thus|therefore|hence|,| )*(?:the|my)? ?(?:final|correct)? ?answer(?: is)?[ :.]*",
    re.IGNORECASE,
)


# A model that does not stop goes on with a next question, and answers that.
_NEXT_TURN = re.compile(
    r"(?<=\S)\s*<\|(?:im_end|eot_id|end)\|>\s*<\|(?:im_start|start_header_id|user)"
)
_SPEAKER = re.compile(r"^\s*assistant ?: ?", re.IGNORECASE)
# "The name on the cover is **The Who**."
_EMPHASISED = re.compile(r"((?:[^\s*]+ ){3,})\*\*([^*\n]{1,80})\*\*[\s.!]*")
_ANSWERED = re.compile(r"^#### ?\S|\banswer(?: is)? ?[:=]", re.IGNORECASE | re.MULTILINE)
_NEXT_QUESTION = re.compile(r"\n\s*(?:question|user|human|q)(?: ?\d{1,3})? ?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The part of an output that states the answer.

    Attributes:
        text: Plain text, without markup; several lines where the output gave several.
        marked: Whether the output itself marks it as its answer (a label, a box, "the answer is").
    """

    text: str
    marked: bool

    @property
    def first_line(self) -> str:
        """Return the first line: of a marked answer, the answer itself, unless it is a list."""
        return self.text.split("\n", 1)[0]


def without_thinking(output: str) -> str | None:
    """Return the output without its closed think blocks; None while one is still open.

    Where only a closing tag is present (the prompt held the opening one), the text after it.
    """
    visible: list[str] = []
    inside = False
    start = 0
    for tag in _THINK_TAG.finditer(output):
        closing = bool(tag.group(1))
        if closing and not inside:
            visible.clear()
        elif not inside:
            visible.append(output[start : tag.start()])
        inside = not closing
        start = tag.end()
    if inside:
        return None
    return "\n".join([*visible, output[start:]])


def emphasised(output: str) -> FinalAnswer | None:
    """Return the bold end of an output that is one sentence; None if there is no such thing."""
    found = _EMPHASISED.fullmatch((without_thinking(output) or "").strip())
    if found is None or re.search(r"\bnot\b|n't\b|[.:] ", found[1]):
        return None
    return _unless_empty(plain(found[2]), marked=True)


def final_answer(output: str) -> FinalAnswer | None:
    """Return what the output marks as its answer, by the last mark; else all of it.

    None where there is no answer to read: the output is empty, still thinking, or takes back the
    answer it marked last without giving another.
    """
    visible = without_thinking(output)
    if visible is None:
        return None
    visible = _SPEAKER.sub("", _NEXT_TURN.split(visible, maxsplit=1)[0])
    if tagged := _ANSWER_TAG.findall(visible):
        return _unless_empty(plain(tagged[-1]), marked=True)
    text = plain(_until_next_question(visible))
    if keys := _ANSWER_KEY.findall(text):
        return _unless_empty("".join(keys[-1]), marked=True)
    for marked in _marked_answers(text):
        answer = _before_explanation(marked)
        if _CORRECTION.search(answer):
            return None
        return _unless_empty(answer, marked=True)
    return _unless_empty(_before_explanation(_corrected(text)), marked=False)


def whole_answer(output: str) -> FinalAnswer | None:
    """Return all that the output says but its thinking and a label; for descriptions."""
    visible = without_thinking(output)
    text = "" if visible is None else plain(visible)
    label = _LABEL_FIRST.match(text)
    return _unless_empty(text[label.end() :] if label else text, marked=False)


def _until_next_question(text: str) -> str:
    """Return the text without the questions that an output puts itself after its answer."""
    answered = _ANSWERED.search(text)
    following = _NEXT_QUESTION.search(text, answered.end()) if answered else None
    return text[: following.start()] if following else text


def _marked_answers(text: str) -> Iterator[str]:
    """Return the text from each mark on, the last mark first; empty ones left out."""
    marks = list(_MARK.finditer(text))[-_MARKS_TRIED:]
    for mark in reversed(marks):
        if mark["statement"] and _SUPPOSITION.search(
            text, max(0, mark.start() - 200), mark.start()
        ):
            continue
        rest = _boxed(text, marks, mark) if mark["box"] else text[mark.end() :].strip(" :\n")
        answer = _ADVERB.sub("", rest)
        if bare(answer):
            yield answer


def _boxed(text: str, marks: Sequence[re.Match[str]], last: re.Match[str]) -> str:
    """Return what a box holds, with what the boxes right before it hold."""
    answer = _braced(text, last.end())
    for mark in reversed(marks[: marks.index(last)]):
        between = text[mark.end() : last.start()]
        content = _braced(text, mark.end()) if mark["box"] else ""
        if not content or not _BETWEEN_BOXES.fullmatch(between, between.find("}", len(content))):
            break
        answer, last = f"{content}, {answer}", mark
    return answer


def _braced(text: str, start: int) -> str:
    """Return the text from `start` to the brace that closes the one before it; "" if none does."""
    depth = 1
    for position in range(start, min(len(text), start + _BOX_CHARACTERS)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position].replace("{", "").replace("}", "")
    return ""


def _before_explanation(text: str) -> str:
    """Return the text up to a line that begins an explanation of what stands above it."""
    explanation = _EXPLANATION.search(text)
    return text[: explanation.start()] if explanation and explanation.start() else text


def _corrected(text: str) -> str:
    """Return what follows the last correction ("Wait, it is ..."), or all of the text."""
    for correction in reversed(list(_CORRECTION.finditer(text))):
        if rest := text[correction.end() :].lstrip(" ,.:;-\n"):
            return "\n".join(sentences(rest))
    return text


def _unless_empty(text: str, *, marked: bool) -> FinalAnswer | None:
    text = text.strip()
    if not bare(text) or _UNFINISHED.fullmatch(text):
        return None
    return FinalAnswer(text, marked)
