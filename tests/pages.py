"""Code blocks of Markdown pages, and what they print."""

import contextlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block of a page, in order."""
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def run_python(page: str, replaced: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a page's Python blocks in one namespace; a text block behind one is what it prints.

    Returns:
        The namespace.
    """
    found = blocks(page)
    names: dict[str, Any] = {"__name__": "__page__"}
    for (language, code), (following, shown) in zip(found, [*found[1:], ("", "")], strict=False):
        if language != "python":
            continue
        for old, new in (replaced or {}).items():
            code = code.replace(old, new)  # noqa: PLW2901
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if following == "text":
            assert printed.getvalue() == shown, code
    return names
