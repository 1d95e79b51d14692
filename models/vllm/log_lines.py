"""Lines of vLLM's log: what they say, without what stands before it."""

import re
from collections.abc import Sequence

_PREFIX = re.compile(
    r"""
    (?:\([^()]*\bpid=\d+\)\s*)?                            # (EngineCore pid=123)
    (?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s             # the level
       \s?[\d:.,\s-]+\[[^\]]*\]\s?                         # the time, [core.py:1510]
    )?
    """,
    re.VERBOSE,
)


_HARMLESS = re.compile(r"(?:\([^()]*\bpid=\d+\)\s*)?(?:DEBUG|INFO|WARNING)\b")


def message(line: str) -> str:
    """A log line without process, level, time and place; indented as it was."""
    line = line.rstrip()
    found = _PREFIX.match(line)
    return line[found.end() :] if found else line


def is_harmless(line: str) -> bool:
    """Whether a line tells of nothing worse than a warning; lines without a level do not."""
    return _HARMLESS.match(line) is not None


def last_message(lines: Sequence[str]) -> str:
    """The last message that holds a word; an empty text if none does."""
    for line in reversed(lines):
        text = message(line).strip()
        if re.search(r"\w{2}", text):
            return text
    return ""
