"""JSON files that are written whole or not at all: a reader never sees half of one."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..configs.files import write_whole


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value.

    Raises:
        ConfigError: It cannot be written; the file is as it was.
    """
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """Write a JSON value a line.

    Raises:
        ConfigError: They cannot be written; the file is as it was.
    """
    write_whole(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))
