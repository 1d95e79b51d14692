"""CSV files as typed rows, whose errors name file, line and column."""

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..configs import ConfigError

T = TypeVar("T")

_ALIKE = 0.8
_LONGEST_SHOWN = 40


class ProfilingInputError(ConfigError):
    """A file or setting that cannot be used; the message is one sentence."""


def read_csv_rows(
    path: Path, kind: type[T], *, columns: Sequence[str] = (), torn: bool = False
) -> list[tuple[int, T]]:
    """Read a CSV file with a header. Empty cells count as absent.

    Args:
        path: The file, in UTF-8.
        kind: A dataclass whose fields are columns.
        columns: Further columns that mean something. A name that resembles an absent one is
            refused; others are ignored.
        torn: Whether a killed program may have left an incomplete last line, which is ignored.

    Returns:
        The number of each row's line, and the row.

    Raises:
        ProfilingInputError: The file cannot be read, or a row is not of that kind.
    """
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    known = [*(field.name for field in fields(kind)), *columns]  # type: ignore[arg-type]
    found = []
    try:
        reader = csv.DictReader(io.StringIO(_text(path, torn=torn), newline=""), strict=True)
        _check_names(path, reader.fieldnames or (), known)
        for cells in reader:
            where = f"{str(path)!r}, line {reader.line_num}"
            found.append((reader.line_num, _row(adapter, cells, where)))
    except OSError as error:
        raise ProfilingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ProfilingInputError(f"{str(path)!r} is no text in UTF-8; save it as one.") from error
    except csv.Error as error:
        raise ProfilingInputError(f"{str(path)!r} is no CSV file ({error}).") from error
    return found


def _text(path: Path, *, torn: bool) -> str:
    content = path.read_bytes()
    before, _, last = content.rpartition(b"\n")
    cells, columns = last.count(b","), content.partition(b"\n")[0].count(b",")
    # A whole last line may lack its line break.
    if torn and (cells < columns or last.count(b'"') % 2):
        content = before + b"\n"
    return content.decode("utf-8-sig")


def _check_names(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    absent = [column for column in columns if column not in names]
    for name in names:
        if name and list(names).count(name) > 1:
            raise ProfilingInputError(f"{str(path)!r} has the column {name!r} twice; keep one.")
        if name not in columns and (alike := get_close_matches(name, absent, 1, _ALIKE)):
            raise ProfilingInputError(
                f"{str(path)!r} has a column {name!r}; call it {alike[0]!r} if that is meant, or "
                "otherwise."
            )


def _row(adapter: TypeAdapter[T], cells: dict[str | Any, Any], where: str) -> T:
    if any(cells.get(None) or ()):
        raise ProfilingInputError(f"{where} has more cells than the header; mend the row.")
    present = {name: cell for name, cell in cells.items() if name and cell}
    try:
        return adapter.validate_python(present)
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["type"] == "missing":
            column = problem["loc"][-1]
            lacking = "is empty" if column in cells else "is missing"
            raise ProfilingInputError(
                f"{where}: the column {column!r} {lacking}; docs/profiling.md lists the columns."
            ) from error
        raise ProfilingInputError(f"{where}: {first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """Describe the first problem of a row or of settings, as a sentence that names the field."""
    problem = error.errors()[0]
    if problem["type"] == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    wrong = problem["msg"].removeprefix("Input ").removeprefix("should ")
    value = str(problem["input"])
    shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."
    return f"{str(problem['loc'][-1])!r} should {wrong}, and is {shown!r}."
