"""Yes or no in an output, as the scripts that score POPE read it."""

import re
from typing import Literal

from .thinking import without_thinking

YesNo = Literal["yes", "no"]

_NO_WORDS = {"No", "not", "no"}
_SEPARATORS = ';/[]"{}()=+\\_-><@`,?!'
_DIGITS_WITH_COMMA = re.compile(r"\d,\d")
_STOP = re.compile(r"\.(?!\d)")
_STOPS_TAKEN = 32  # The script passes a regex flag of this value where the count goes.


def official_yes_no(text: str) -> YesNo:
    """POPE's own script: no if the first sentence holds a word of denial, else yes.

    Words are what single blanks separate, and case counts: "NO" is a yes, and so is silence.
    """
    sentence = text.split(".", maxsplit=1)[0].replace(",", "")
    return "no" if _NO_WORDS & set(sentence.split(" ")) else "yes"


def vlmevalkit_yes_no(text: str) -> YesNo | None:
    """VLMEvalKit: the one of the two words that occurs; None if neither or both do."""
    words = set(_vqa_words(text.lower()))
    if ("yes" in words) == ("no" in words):
        return None
    return "yes" if "yes" in words else "no"


def lmms_yes_no(text: str) -> YesNo | None:
    """lmms-eval: the whole output but for case and outer blanks."""
    match without_thinking(text).lower():
        case "yes":
            return "yes"
        case "no":
            return "no"
    return None


def _vqa_words(text: str) -> list[str]:
    """Words by the VQA script: a mark that touches a blank goes, any other becomes a blank.

    Where a number is written with a comma, every mark goes. Of the stops that are not within a
    number, the first 32 go.
    """
    goes_everywhere = _DIGITS_WITH_COMMA.search(text) is not None
    spaced = text
    for mark in _SEPARATORS:
        goes = goes_everywhere or f"{mark} " in text or f" {mark}" in text
        spaced = spaced.replace(mark, "" if goes else " ")
    return _STOP.sub("", spaced, count=_STOPS_TAKEN).split()
