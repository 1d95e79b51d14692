"""JSON files that are written whole or not at all: a reader never sees half of one."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    _replace(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """Write a JSON value a line.

    Raises:
        OSError: They cannot be written; the file is as it was.
    """
    _replace(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
