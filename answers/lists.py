"""Reads the items of a list out of a text."""

import re

from .plain_text import bare

_BULLET = re.compile(r"(?:[-*•·+]|\(?\d{1,2}[.)]) +")
# Commas within a number do not separate: "1,234, 5" has two items.
_SEPARATOR = re.compile(r"[;\n|]|(?<!\d),|,(?!\d{3}(?!\d))| (?:and|&) ", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"(?:here|the|these|those|they|it|there|both)\b[^,;\n]{0,80}?"
    r"\b(?:is|are|was|were|include|includes)\b:? ",
    re.IGNORECASE,
)
_ITEM_WORDS = 8
_ITEM_CHARACTERS = 120
_ITEMS = 100  # A longer list is an output that loops.


def read_items(text: str) -> tuple[str, ...] | None:
    """The items of a plain text as written, or None if it is prose.

    Items stand on lines with bullets or numbers, or between commas, semicolons, line breaks or
    "and"; one item is a list too.
    """
    bullets = [line for line in text.split("\n") if _BULLET.match(line)]
    if bullets:
        items = [_BULLET.sub("", line, count=1) for line in bullets]
    else:
        items = _SEPARATOR.split(_LEAD_IN.sub("", bare(text), count=1))
    items = [item for item in map(bare, items) if item]
    if not 0 < len(items) <= _ITEMS or not all(map(_is_item, items)):
        return None
    return tuple(item.removeprefix("and ") for item in items)


def _is_item(text: str) -> bool:
    return len(text) <= _ITEM_CHARACTERS and len(text.split()) <= _ITEM_WORDS
