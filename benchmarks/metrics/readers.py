"""What the scripts that score benchmarks read in an output, and the open answers they accept.

A reader of yes or no, or of a choice's letter, returns None where its script finds nothing: where
it would call a judge model, or pick a letter at random. Readers of letters take the output and the
texts of the options. Rules for open answers are ANLS, ChartQA's relaxed match and MMMU's own.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import Literal

YesNo = Literal["yes", "no"]
LetterReader = Callable[[str, Sequence[str]], str | None]

_BLOCK = re.compile(r"<(think|analysis)>.*?</\1>", re.DOTALL)

_NO_WORDS = {"No", "not", "no"}
_SEPARATORS = ';/[]"{}()=+\\_-><@`,?!'
_DIGITS_WITH_COMMA = re.compile(r"\d,\d")
_STOP = re.compile(r"\.(?!\d)")
_STOPS_TAKEN = 32  # The script passes a regex flag of this value where the count goes.

_OUTER_MARKS = ",.!?;:'"
_WORDS_OF_A_SENTENCE = 5

_VLMEVALKIT_REFUSALS = (
    "Failed to obtain answer via API",
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_VLMEVALKIT_MARKS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_VLMEVALKIT_LAST_WORDS = 5
# No word boundary follows the letter: "the answer is calm" is read as C.
_VLMEVALKIT_PHRASE = re.compile(r"answer\s+is\s+\**([ABCD])", re.IGNORECASE)

_PREFETCH_LETTERS = "ABCDE"
_PREFETCH_FORMS = (
    *("{}.", "{},", "{}:", "{})", "{}).", "({})", "({})."),
    *(":{}", ":{},", ":{}.", ":{})", ":{})."),
)

_NAMES = (
    *("answer", "correct answer", "best answer", "correct option", "best option"),
    *("choice", "correct choice"),
)
_PHRASES = (
    *(f"{start}{name} is" for start in ("the ", "") for name in _NAMES),
    *("i choose", "i select", "i pick", "my answer is", "my choice is"),
    *("옵션", "정답은", "답은", "답:", "答案是", "答案为", "选", "答えは"),
)
_BY_RANK = ("({})", "{}.", "{}:", "{})", "{} ")

ANLS_FLOOR = 0.5
"""A similarity below it counts as 0."""

TOLERANCE = 0.05
"""In ChartQA, how far a number may be from the right one, as a share of it."""

_KEYS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_TRIVIAL = frozenset(":,.!?;'")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)


def without_thinking(text: str) -> str:
    """Return the output without closed think blocks and outer blanks, as lmms-eval does.

    An open block stays.
    """
    return _BLOCK.sub("", text).strip()


def official_yes_no(text: str) -> YesNo:
    """Read by POPE's own script: no if the first sentence holds a word of denial, else yes.

    Words are what single blanks separate, and case counts: "NO" is a yes, and so is silence.
    """
    sentence = text.split(".", maxsplit=1)[0].replace(",", "")
    return "no" if _NO_WORDS & set(sentence.split(" ")) else "yes"


def vlmevalkit_yes_no(text: str) -> YesNo | None:
    """Read by VLMEvalKit: the one of the two words that occurs; None if neither or both do."""
    words = set(_vqa_words(text.lower()))
    if ("yes" in words) == ("no" in words):
        return None
    return "yes" if "yes" in words else "no"


def lmms_yes_no(text: str) -> YesNo | None:
    """Read by lmms-eval: the whole output but for case and outer blanks."""
    match without_thinking(text).lower():
        case "yes":
            return "yes"
        case "no":
            return "no"
    return None


def _vqa_words(text: str) -> list[str]:
    """Split by the VQA script: a mark that touches a blank goes, any other becomes a blank.

    Where a number is written with a comma, every mark goes. Of the stops that are not within a
    number, the first 32 go.
    """
    goes_everywhere = _DIGITS_WITH_COMMA.search(text) is not None
    spaced = text
    for mark in _SEPARATORS:
        goes = goes_everywhere or f"{mark} " in text or f" {mark}" in text
        spaced = spaced.replace(mark, "" if goes else " ")
    return _STOP.sub("", spaced, count=_STOPS_TAKEN).split()


def mmmu_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read by MMMU's own script: "(B)", " B ", then in a sentence an option's text; the last."""
    return _mmmu(text, choices, (" {} ",))


def lmms_mmmu_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read by lmms-eval on MMMU: MMMU's script, which here takes "B " and "B." too."""
    return _mmmu(without_thinking(text), choices, ("{} ", "{}."))


def vlmevalkit_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read by VLMEvalKit, which is MMBench's own rule, with exact matching instead of a judge.

    The only letter among the words if it is one of the last five; then "answer is B"; then the only
    option whose text occurs, in an output not twice as long as all options.
    """
    if any(refusal in text for refusal in _VLMEVALKIT_REFUSALS):
        return None
    letters = ascii_uppercase[: len(choices)]
    words = text.translate(_VLMEVALKIT_MARKS).split()
    found = [letter for letter in letters if letter in words]
    if len(found) == 1 and words.index(found[0]) > len(words) - _VLMEVALKIT_LAST_WORDS:
        return found[0]
    if not found and "Z" in words:
        return None
    phrase = _VLMEVALKIT_PHRASE.search(text)
    if phrase and phrase[1].upper() in letters:
        return phrase[1].upper()
    if len(text) > 2 * sum(map(len, choices)):
        return None
    return _only_option(text, choices)


def lmms_prefetched_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read by lmms-eval on MMBench, without a judge: a letter that stands alone, or one option."""
    text = without_thinking(text)
    words = text.split()
    found = [letter for letter in _PREFETCH_LETTERS if letter in words]
    if len(found) == 1 and not ("A" in words and len(words) > 3):
        return found[0]
    for form in _PREFETCH_FORMS:
        found = [letter for letter in _PREFETCH_LETTERS if form.format(letter) in words]
        if len(found) == 1:
            return found[0]
    return _only_option(text, choices)


def lmms_static_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read by lmms-eval on MMBench without a judge model: its shared reader takes that place."""
    text = without_thinking(text)
    return lmms_prefetched_letter(text, choices) or lmms_letter(text, choices)


def lmms_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read by lmms-eval's shared reader: any letter by the rank of its form, the last one first.

    A letter at the start counts most, then one at the end, then one after "the answer is", then
    "(B)", "B.", "B:", "B)", "B " and at last a B anywhere.
    """
    stripped = without_thinking(text)
    for mark in (*_OUTER_MARKS, '"'):
        stripped = stripped.strip(mark)
    letters, padded = ascii_uppercase[: len(choices)], f" {stripped} "
    stripped = stripped.strip()
    if not stripped:
        return None
    if stripped[0] in letters and not stripped[1:2].isalpha():
        return stripped[0]
    if stripped[-1] in letters and not stripped[-2:-1].isalpha():
        return stripped[-1]
    places = [(place, letter) for letter in letters if (place := _after_phrase(padded, letter))]
    for form in _BY_RANK:
        places = places or _places(padded, letters, form)
    places = places or _places(padded, letters, "{}")
    return max(places)[1] if places else None


def exact_letter(text: str, choices: Sequence[str]) -> str | None:
    """Read the letter alone, in either case, with or without a stop."""
    letter = text.strip().rstrip(".").upper()
    return letter if letter and letter in tuple(ascii_uppercase[: len(choices)]) else None


def _mmmu(text: str, choices: Sequence[str], forms: Sequence[str]) -> str | None:
    for mark in _OUTER_MARKS:
        text = text.strip(mark)
    padded, letters = f" {text} ", ascii_uppercase[: len(choices)]
    for form in ("({})", *forms):
        if found := [letter for letter in letters if form.format(letter) in padded]:
            # Which of several letters is the last is looked up in one form for all but brackets.
            place = form if form == "({})" else " {} "
            return _last({letter: place.format(letter) for letter in found}, padded)
    if len(padded.split()) <= _WORDS_OF_A_SENTENCE:
        return None
    lower = padded.lower()
    texts = dict(zip(letters, (choice.lower() for choice in choices), strict=False))
    named = {letter: words for letter, words in texts.items() if words in lower}
    return _last(named, lower) if named else None


def _last(forms: Mapping[str, str], text: str) -> str:
    """Return the letter whose form occurs last; the first of those that do not occur."""
    return max(forms, key=lambda letter: text.rfind(forms[letter]))


def _only_option(text: str, choices: Sequence[str]) -> str | None:
    lower = text.lower()
    found = [
        letter
        for letter, choice in zip(ascii_uppercase, choices, strict=False)
        if choice.lower() in lower
    ]
    return found[0] if len(found) == 1 else None


def _places(text: str, letters: str, form: str) -> list[tuple[int, str]]:
    places = ((text.rfind(form.format(letter)), letter) for letter in letters)
    return [found for found in places if found[0] >= 0]


def _after_phrase(text: str, letter: str) -> int:
    """Return where a letter first follows a phrase that announces an answer; 0 if nowhere."""
    lower, last = text.lower(), 0
    for phrase in _PHRASES:
        start = lower.find(phrase)
        if start >= 0:
            last = max(last, text.find(letter, start + len(phrase)))
    return last


def anls(prediction: str, answers: Sequence[str]) -> float:
    """Return the similarity to the nearest accepted answer.

    By the script of the Robust Reading Competition: case and runs of blanks make no difference to
    the distance, but outer and inner blanks count in the length that it is divided by.

    Returns:
        From `ANLS_FLOOR` to 1, or 0.
    """
    nearest = max((_similarity(prediction, answer) for answer in answers), default=0.0)
    return nearest if nearest >= ANLS_FLOOR else 0.0


def _similarity(prediction: str, answer: str) -> float:
    from rapidfuzz.distance import Levenshtein

    length = max(len(prediction), len(answer))
    if not length:
        return 1.0
    a, b = (" ".join(text.lower().split()) for text in (prediction, answer))
    return 1 - Levenshtein.distance(a, b) / length


def relaxed_match(prediction: str, answer: str) -> bool:
    """Apply ChartQA's rule: within 5% of the right number, else the same text but for case.

    Percentages are divided by 100; a right 0 wants the same text. Years get the 5% too.
    """
    stated, right = _number(prediction), _number(answer)
    if stated is not None and right:
        return abs(stated - right) / abs(right) <= TOLERANCE
    return prediction.lower() == answer.lower()


def vlmevalkit_answers(answer: str) -> Sequence[str]:
    """Return the accepted answers like VLMEvalKit: a Python list in the data are alternatives."""
    try:
        value = ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return (answer,)
    return [str(item) for item in value] if isinstance(value, list) else (answer,)


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def official_open_match(text: str, answers: Sequence[str]) -> bool:
    """Apply MMMU's own script: an accepted number in the output, or an accepted text in its tail.

    The tail of each line is what follows the last word like "is" or "answer" (or "=" in the last
    line). Numbers are rounded to two decimals.
    """
    accepted = [form for answer in answers for form in _forms(answer)]
    words = [form for form in accepted if isinstance(form, str)]
    stated = _stated(text)
    return any(
        any(word in form for word in words) if isinstance(form, str) else form in accepted
        for form in stated
    )


def vlmevalkit_open_match(text: str, answers: Sequence[str]) -> bool:
    """Apply VLMEvalKit's rule: the question as a choice between the answer and "Other Answers"."""
    answer = answers[0] if len(answers) == 1 else str(list(answers))
    return vlmevalkit_letter(text, (answer, "Other Answers")) == "A"


def _stated(text: str) -> list[str | float]:
    """Return the tails of an output and the numbers in them, in the forms that are compared."""
    lower = text.strip().strip(".").lower()
    lines = lower.split("\n")
    tails = [tail for line in lines[:-1] if (tail := _tail(line, _KEYS))]
    tails += [tail] if (tail := _tail(lines[-1], (*_KEYS, "="))) else []
    tails = tails or [lower]
    numbers = [number for tail in tails for form in _NUMBERS for number in form.findall(tail)]
    return [form for part in (*tails, *numbers) for form in _forms(part)]


def _tail(line: str, keys: Sequence[str]) -> str:
    """Return the shortest text behind a key word; empty if there is none or it is one mark."""
    shortest = ""
    for key in keys:
        if key in line:
            tail = line.rsplit(key, maxsplit=1)[-1].strip()
            if not shortest or len(tail) < len(shortest):
                shortest = tail
    return "" if shortest in _TRIVIAL else shortest


def _forms(text: str) -> list[str | float]:
    """Return a number as a float with two decimals, a text in lower case, a letter with blanks."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lower = text.lower()
    return [f" {lower}", f"{lower} "] if len(lower) == 1 else [lower]
