"""Tell from a question which type its answer has, and which choices it lists."""

import re
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Literal

from .plain_text import fold, plain, sentences

AnswerType = Literal["yes_no", "choice", "number", "short_text", "list", "free_text"]

_NUMBER_OF_ONE = re.compile(
    # Not "the number of dogs", "the total number", "the highest number": these are quantities.
    r"(?<!est )(?<!total )(?<!average )\bnumber\b"
    r"(?! of (?!(?:the|this|that|his|her|its|their|your|my)\b))|号",
    re.IGNORECASE,
)
_NAMED_BY_NUMBER = re.compile(
    r"\b(?:what|which)(?: is| are| was|'s)? (?:(?!of\b)[\w'-]+ ){0,4}?"
    r"(?:version|code|id|isbn|plate|page|chapter|section|phone|telephone|flight|gate|room|route|bus"
    r"|platform|serial|model|address|postcode|zip|barcode|licen[cs]e|registration|ticket|invoice)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\bhow \w+|\b(?:total|sum|average|mean|median|count|percent(?:age)?|price|cost|amount"
    r"|difference|bar|axis|slice|dial|meter|gauge|scale|thermometer)\b",
    re.IGNORECASE,
)
_ANNOUNCED = re.compile(
    r"^\W*(?:no\.? ?|nr\.? ?|number |#|№)+(?=\d)|\bthe |^\W*(?:reads|says|shows) ", re.IGNORECASE
)
_PART = re.compile(r"\d+|[^\W\d_]+|(?<=\d)[.,/:](?=\d)|\+(?=\d)")


def asks_for_identifier(question: str) -> bool:
    """Return whether a question asks for a number that names something and has no size.

    That is: "number", unless a number "of" several things or what a chart or meter shows is asked
    for; or "what" and a thing that goes by a number.
    """
    if _QUANTITY.search(question):
        return False
    return bool(_NUMBER_OF_ONE.search(question) or _NAMED_BY_NUMBER.search(question))


def identifier_form(phrase: str) -> str:
    """Return an identifier as it is compared: "#" and its groups of letters and digits.

    "" without digits.

    Blanks, hyphens and brackets only separate groups ("BA-117" is "BA 117" and "BA117"); points,
    slashes and leading zeros count. The "#" keeps it from being read as a quantity.
    """
    parts = _PART.findall(_ANNOUNCED.sub("", fold(phrase)))
    return "#" + " ".join(parts) if any(part.isdecimal() for part in parts) else ""


_OPTION_LINE = re.compile(r"\s*(?:[(\[]([A-Za-z])[)\]]|([A-Z])[.):])[ \t]*(\S.*)")
_INLINE_OPTION = re.compile(r"(?:(?<=\s)|^)(?:\(([A-Za-z])\)|([A-Z])[.):])[ \t]*(?=\S)")
_NO_TEXT = re.compile(r"(?:.*[\s,])?(?:and|or|&|和|或|与)|\W*", re.IGNORECASE)
_HEADING = re.compile(
    r"\s*(?:(?:the |answer )?(?:options|choices)(?: are)?)\s*:?\s*", re.IGNORECASE
)
_ANSWER_FORMAT = re.compile(
    r"\s*(?:please )?(?:answer|respond|reply|select|choose|pick|give|provide)\b.*"
    r"\b(?:letters?|options?|choices?|answer|above|given)\b.*",
    re.IGNORECASE,
)

_REQUEST = re.compile(
    r"(?:(?:please|(?:can|could|would|will) you) )+(?=(?:please )?(?:tell me|describe|list|name"
    r"|count|explain|give|read|write|caption|summari[sz]e)\b)|(?:please )?tell me ",
    re.IGNORECASE,
)
_SAYS_YES_OR_NO = re.compile(r"\byes (?:or|/) no\b|\byes/no\b|吗", re.IGNORECASE)
_YES_NO = re.compile(
    r"(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|should|may|might"
    r"|isn't|aren't|doesn't|don't|didn't|can't)\b",
    re.IGNORECASE,
)
_EXISTENCE = re.compile(r"(?:is|are|was|were) there\b", re.IGNORECASE)
_ALTERNATIVE = re.compile(
    r"\bor\b(?! (?:not|any|more|less|fewer|later|earlier|equal)\b)", re.IGNORECASE
)
_NUMBER = re.compile(
    r"\bhow (?:many|much|old|tall|high|far|long|wide|deep|heavy|fast)\b"
    r"|\bwhat(?: is| was| are| were|'s)? (?:the )?(?:\w+ ){0,2}?(?:percentages?|percent|fraction"
    r"|proportion|share|number|total|sum|average|mean|median|count|value|year"
    r"|difference in)\b"
    r"|\bwhich (?:year|number|percentage)\b"
    r"|^(?:count|calculate|compute|add|sum up)\b|多少|几",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"(?:list|enumerate)\b|name (?:all|(?:the )?(?:two|three|four|five|six))\b"
    r"|.*\b(?:what|which) (?:are the )?(?:two|three|four|five|six)\b",
    re.IGNORECASE,
)
_FREE_TEXT = re.compile(
    r"(?:describe|explain|summari[sz]e|write|caption|discuss|give (?:me )?(?:a|an) (?:\w+ )?"
    r"(?:description|summary|caption))\b|why\b|how (?:do|does|did|can|could|would|should|is|are)\b"
    r"|what(?: is|'s) (?:happening|going on)\b",
    re.IGNORECASE,
)


def infer_answer_type(question: str, choices: Sequence[str] = ()) -> AnswerType:
    """Return the type that the answer to a question has: what "auto" means.

    Only clear forms decide: choices given or listed, "is there", "how many", "list", "describe".
    Everything else is a short text, in which numbers and lists are compared as such: numbers that
    name things too (a phone number, a version), since they are no quantities.
    """
    stem, listed = split_choices(question)
    if choices or listed:
        return "choice"
    if _SAYS_YES_OR_NO.search(stem):
        return "yes_no"
    asked = _REQUEST.sub("", _question_sentence(stem), count=2)
    if _FREE_TEXT.match(asked):
        return "free_text"
    if _LIST.match(asked):
        return "list"
    if _EXISTENCE.match(asked) or (_YES_NO.match(asked) and not _ALTERNATIVE.search(asked)):
        return "yes_no"
    if asks_for_identifier(asked):
        return "short_text"
    return "number" if _NUMBER.search(asked) else "short_text"


def split_choices(question: str) -> tuple[str, tuple[str, ...]]:
    """Take the options that a question lists out of it.

    Options are lettered from A on, at least two, each on its line ("A. x", "(A) x", "A) x") or all
    on one, which then ends the question: "(a) and (b) show curves. Which is steeper?" and "is it
    A: left or B: right?" are plain questions. A heading above them ("Options:") and a request below
    to answer with a letter go too, since prompts say in their own way how to answer; other text
    below joins the question.

    Returns:
        The question without its options, and their texts; the question itself and () if it lists
        none.
    """
    lines = question.splitlines()
    ends_the_question = True  # Whether nothing but an answer format stands below.
    for first in range(len(lines) - 1, -1, -1):
        line = lines[first]
        before, texts = _inline_options(line) if ends_the_question else ("", ())
        end = first + 1
        if not texts:
            before, (texts, end) = "", _options_on_lines(lines, first)
        if len(texts) >= 2:
            above = [*lines[:first], before]
            while above and (not above[-1].strip() or _HEADING.fullmatch(above[-1])):
                above.pop()
            below = [line for line in lines[end:] if not _ANSWER_FORMAT.fullmatch(line)]
            return "\n".join([*above, *below]).strip(), texts
        if line.strip() and not _ANSWER_FORMAT.fullmatch(line):
            ends_the_question = False
    return question, ()


def _inline_options(line: str) -> tuple[str, tuple[str, ...]]:
    """Return the text before the options that a line ends with, and theirs; () if it has none."""
    marks: list[re.Match[str]] = []
    for mark in _INLINE_OPTION.finditer(line):
        letter = (mark[1] or mark[2]).upper()
        if letter == "A" and _may_follow(line, mark.start()):
            marks = [mark]
        elif marks and letter == ascii_uppercase[len(marks) % 26]:
            marks.append(mark)
    if len(marks) < 2:
        return "", ()
    ends = [mark.start() for mark in marks[1:]] + [len(line)]
    texts = tuple(line[m.end() : end].strip(" ,;") for m, end in zip(marks, ends, strict=True))
    return line[: marks[0].start()].rstrip(), texts if all(map(_is_option, texts)) else ()


def _may_follow(line: str, position: int) -> bool:
    """Return whether options may begin here: at the start, or after the end of a clause."""
    while position and line[position - 1].isspace():
        position -= 1
    return not position or line[position - 1] in "?.:!,;)"


def _options_on_lines(lines: list[str], first: int) -> tuple[tuple[str, ...], int]:
    """Return the options that stand each on a line from here on, and the index after them."""
    found: list[str] = []
    index = first
    while index < len(lines):
        option = _OPTION_LINE.fullmatch(lines[index])
        if option and (option[1] or option[2]).upper() == ascii_uppercase[len(found) % 26]:
            found.append(option[3].strip())
        elif lines[index].strip() or not found:
            break
        index += 1
    return tuple(found), index


def _is_option(text: str) -> bool:
    """Return whether a text between two letters of a line is an option: words of one sentence."""
    return not _NO_TEXT.fullmatch(text) and "?" not in text and len(sentences(text)) == 1


def _question_sentence(text: str) -> str:
    """Return the last sentence that ends with a question mark, or else the first."""
    said = sentences(plain(text))
    questions = [sentence for sentence in said if sentence.endswith("?")]
    return (questions or said or [""])[-1 if questions else 0]
