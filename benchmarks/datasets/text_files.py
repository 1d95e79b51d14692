"""Text files of data as people save them: UTF-8, with or without a byte order mark."""

import codecs
import json
from pathlib import Path
from typing import Any

from .errors import DataError

_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        DataError: It cannot be read, or is not UTF-8; names the line.
    """
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    if data.startswith(_OTHER_MARKS):
        raise DataError(f"{path} is UTF-16; save it as UTF-8.")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: it is not UTF-8; save the file as UTF-8.") from error


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """The lines of JSON Lines that are not blank, with their numbers from 1.

    JSON texts may hold other line separators as they are: only line feeds end a line.
    """
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def parsed(text: str) -> Any:
    """A JSON value.

    Raises:
        DataError: It is none, or is nested too deeply; begins in the middle of a sentence.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise DataError("it is nested too deeply.") from error
    except ValueError as error:
        raise DataError(f"it is not JSON: {error}.") from error
