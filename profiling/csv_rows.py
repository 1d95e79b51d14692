"""CSV files as typed rows, whose errors name file, line and column."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..configs import ConfigError

T = TypeVar("T")

_ALIKE = 0.8
_LONGEST_SHOWN = 40


class ProfilingInputError(ConfigError):
    """A file or setting that cannot be used; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Line(Generic[T]):
    """A row and the number of its line in the file."""

    number: int
    row: T


def read_csv_rows(
    path: Path, kind: type[T], *, columns: Sequence[str] = (), torn: bool = False
) -> list[Line[T]]:
    """Read a CSV file with a header. Empty cells count as absent.

    Args:
        path: The file, in UTF-8.
        kind: A dataclass or pydantic model; its fields are columns.
        columns: Names of all columns that mean something. A name that resembles an absent one of
            them is refused; others are ignored.
        torn: Whether a killed program may have left an incomplete last line, which is ignored.

    Raises:
        ProfilingInputError: The file cannot be read, or a row is not of that kind.
    """
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    found = []
    try:
        reader = csv.DictReader(io.StringIO(_text(path, torn=torn), newline=""), strict=True)
        _check_names(path, reader.fieldnames or (), columns)
        for cells in reader:
            where = f"{str(path)!r}, line {reader.line_num}"
            found.append(Line(reader.line_num, _row(adapter, cells, where)))
    except OSError as error:
        raise ProfilingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ProfilingInputError(f"{str(path)!r} is no text in UTF-8; save it as one.") from error
    except csv.Error as error:
        raise ProfilingInputError(f"{str(path)!r} is no CSV file ({error}).") from error
    return found


def _text(path: Path, *, torn: bool) -> str:
    content = path.read_bytes()
    whole, end, last = content.rpartition(b"\n")
    if torn and not _is_whole(last, content.partition(b"\n")[0]):
        content = whole + end
    return content.decode("utf-8-sig")


def _is_whole(line: bytes, header: bytes) -> bool:
    """Whether a last line has all of its cells; it may lack its line break."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return line.count(b",") >= header.count(b",") and line.count(b'"') % 2 == 0


def _check_names(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    doubled = next((name for name in names if name and list(names).count(name) > 1), None)
    if doubled:
        raise ProfilingInputError(f"{str(path)!r} has the column {doubled!r} twice; keep one.")
    absent = [column for column in columns if column not in names]
    for name in names:
        if name not in columns and (alike := get_close_matches(name, absent, 1, _ALIKE)):
            raise ProfilingInputError(
                f"{str(path)!r} has a column {name!r}; call it {alike[0]!r} if that is meant, or "
                "otherwise."
            )


def _row(adapter: TypeAdapter[T], cells: dict[str | None, str], where: str) -> T:
    beyond = cells.get(None)
    if beyond and any(beyond):
        raise ProfilingInputError(f"{where} has more cells than the header; mend the row.")
    try:
        return adapter.validate_python(
            {name: cell for name, cell in cells.items() if name and cell}
        )
    except ValidationError as error:
        raise ProfilingInputError(_sentence(error, cells, where)) from error


def _sentence(error: ValidationError, cells: dict[str | None, str], where: str) -> str:
    """Describe the first problem of a row."""
    problem = error.errors(include_url=False)[0]
    if not problem["loc"]:
        return f"{where}: {problem['msg'].removeprefix('Value error, ')}"
    column = str(problem["loc"][-1])
    if problem["type"] == "missing":
        lacking = "is empty" if column in cells else "is missing"
        return f"{where}: the column {column!r} {lacking}; docs/profiling.md lists the columns."
    wrong = problem["msg"].removeprefix("Input ").removeprefix("should ")
    value = str(problem["input"])
    shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."
    return f"{where}: {column!r} should {wrong}, and is {shown!r}."
