"""Numbers that name things (a phone, a room, a version): told by the question, kept as written."""

import re

from .words import fold

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
_ANNOUNCED = re.compile(r"^\W*(?:no\.? ?|nr\.? ?|number |#|№)+(?=\d)|\bthe ", re.IGNORECASE)
_PART = re.compile(r"\d+|[^\W\d_]+|(?<=\d)[.,/:](?=\d)|\+(?=\d)")


def asks_for_identifier(question: str) -> bool:
    """Whether a question asks for a number that names something: it has no size, only a spelling.

    That is: "number", unless a number "of" several things or what a chart or meter shows is asked
    for; or "what" and a thing that goes by a number.
    """
    if _QUANTITY.search(question):
        return False
    return bool(_NUMBER_OF_ONE.search(question) or _NAMED_BY_NUMBER.search(question))


def identifier_form(phrase: str) -> str:
    """An identifier as it is compared: "#" and its groups of letters and digits; "" without digits.

    Blanks, hyphens and brackets only separate groups ("BA-117" is "BA 117" and "BA117"); points,
    slashes and leading zeros count. The "#" keeps it from being read as a quantity.
    """
    parts = _PART.findall(_ANNOUNCED.sub("", fold(phrase)))
    return "#" + " ".join(parts) if any(part.isdecimal() for part in parts) else ""
