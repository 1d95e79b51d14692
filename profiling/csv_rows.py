"""Rows of a CSV file as typed values; what is wrong with one is said with its line and column."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import ProfilingInputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line(Generic[T]):
    """A row and where it ends in its file."""

    number: int
    row: T


def read_csv_rows(path: Path, kind: type[T], *, skip_short: bool = False) -> list[Line[T]]:
    """Read a CSV file with a header.

    Empty cells count as not given.

    Args:
        path: The file, in UTF-8.
        kind: A dataclass or pydantic model; its fields are columns.
        skip_short: Whether rows with fewer cells than the header are left out, as a program that
            was ended leaves one behind; otherwise the missing cells are empty.

    Raises:
        ProfilingInputError: The file cannot be read, or a row is none of that kind.
    """
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    found = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="", strict=True)
            for cells in reader:
                if skip_short and None in cells.values():
                    continue
                where = f"{str(path)!r}, line {reader.line_num}"
                found.append(Line(reader.line_num, _row(adapter, cells, where)))
    except OSError as error:
        raise ProfilingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ProfilingInputError(f"{str(path)!r} is no text in UTF-8; save it as one.") from error
    except csv.Error as error:
        raise ProfilingInputError(f"{str(path)!r} is no CSV file ({error}).") from error
    return found


def _row(adapter: TypeAdapter[T], cells: dict[str, str], where: str) -> T:
    if "" in cells:
        raise ProfilingInputError(f"{where} has more cells than the header; mend the row.")
    try:
        return adapter.validate_python({name: cell for name, cell in cells.items() if cell})
    except ValidationError as error:
        raise ProfilingInputError(_sentence(error, cells, where)) from error


def _sentence(error: ValidationError, cells: dict[str, str], where: str) -> str:
    """What is wrong first."""
    fault = error.errors(include_url=False)[0]
    if not fault["loc"]:
        return f"{where}: {fault['msg'].removeprefix('Value error, ')}"
    column = str(fault["loc"][-1])
    if fault["type"] == "missing":
        lacking = "is empty" if column in cells else "is missing"
        return f"{where}: the column {column!r} {lacking}; docs/profiling.md lists the columns."
    wrong = fault["msg"].removeprefix("Input ").removeprefix("should ")
    return f"{where}: {column!r} should {wrong}, and is {fault['input']!r}."
