"""A key that a server repeats is taken out of its words."""

import json
import re
from typing import Any

from .api_key import NO_KEY

_LONG = 8  # hidden wherever it stands
_WORD = 4  # hidden as a word
_DEPTH = 50


def without_key(text: str, key: str) -> str:
    """A text in which `***` stands for the key, also where its quotes are escaped.

    Short keys occur in other words and numbers: one of fewer than 8 characters is hidden where it
    stands alone, one of fewer than 4 only after "Bearer".
    """
    if not key or key == NO_KEY:
        return text
    for form in {key, repr(key)[1:-1], json.dumps(key)[1:-1]}:
        pattern = re.escape(form)
        if len(key) < _LONG:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        if len(key) < _WORD:
            pattern = rf"(?<=Bearer ){pattern}"
        text = re.sub(pattern, "***", text)
    return text


def body_without_key(body: Any, key: str, depth: int = 0) -> Any:
    """A server's answer with `***` for the key in all its texts, names included.

    Args:
        body: What came as JSON.
        key: The key.
        depth: How deep in the answer it lies; what lies deeper than 50 is left out.
    """
    if isinstance(body, str):
        return without_key(body, key)
    if depth > _DEPTH:
        return None
    if isinstance(body, dict):
        return {
            body_without_key(name, key): body_without_key(value, key, depth + 1)
            for name, value in body.items()
        }
    if isinstance(body, list):
        return [body_without_key(value, key, depth + 1) for value in body]
    return body
