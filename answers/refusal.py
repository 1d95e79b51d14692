"""Recognises outputs that decline to answer."""

import re

_CANNOT = r"(?:can ?not|can't|could ?not|couldn't|(?:not able|unable) to|do not|don't)"
_REFUSAL = re.compile(
    rf"\b{_CANNOT} (?:really |clearly |reliably |possibly |be )*"
    r"(?:tell|say|determined?|know|answer(?:ed)?|help|assist|provide|identify|recogni[sz]e|make out"
    r"|read (?:it|this|that|them)"
    r"|(?:view|see|access|process|analy[sz]e|open|read) (?:(?:the|this|that|any|your) )?"
    r"(?:images?|pictures?|photos?|charts?|figures?|documents?|diagrams?))\b"
    r"|\b(?:not|isn't|is no|there's no) (?:possible|way) to (?:tell|say|determine|know|answer)\b"
    r"|\b(?:hard|difficult|impossible) to (?:tell|say|determine|know)\b"
    r"|\b(?:not enough|insufficient|no) (?:information|context|data)\b"
    r"|\b(?:unclear|undetermined|unanswerable|indeterminate)\b|\bnot sure\b|\buncertain\b"
    r"|^(?:i am |i'm )?sorry\b|\bas an ai\b"
    r"|^(?:unknown|n/?a|none given|not applicable|not available|not given|not stated"
    r"|not specified|not visible|not shown)\W*$|^no (?:label|answer|value)\b",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSAL_CJK = re.compile("无法|不能(?:确定|判断|看|识别)|不知道|不确定|看不清|抱歉")
_HEDGE = re.compile(r"\b(?:maybe|perhaps|possibly|might|could|may be|either|if|whether)\b", re.I)


def declines(text: str) -> bool:
    """Whether a plain text says that it cannot or will not answer."""
    return bool(_REFUSAL.search(text) or _REFUSAL_CJK.search(text))


def hedges(text: str) -> bool:
    """Whether a plain text only names a possibility ("maybe", "could be")."""
    return bool(_HEDGE.search(text))
