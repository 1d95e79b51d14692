"""Published figures beside our own: rows from CSV files in the form of the paper's tables."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...configs import ConfigError
from ...configs.paths import existing_file
from .table import Cell, Table

_STYLE_COLUMNS = {"S": "S", "E": "E", "R": "R", "R_two_stage": "two-stage"}

# Columns of files that have a row for each benchmark, by the table that shows them.
_WIDE = {
    "mai": {
        "questions": "questions",
        "verified_direct": "verified direct",
        "verified_by_reasoning": "verified by reasoning",
        "reasoning_transfer": "reasoning transfer",
        "mai_score": "MAI",
        "small_S": "small S",
        "small_R": "small R",
        "large_S": "large S",
        "full_transfer": "full transfer",
    },
    "two_stage_verification": {
        "questions": "questions",
        "R_verified": "R verified",
        "R_transfer": "R transfer",
        "R_score": "R score",
        "R_two_stage_verified": "two-stage verified",
        "R_two_stage_transfer": "two-stage transfer",
        "R_two_stage_score": "two-stage score",
    },
}

Row = Mapping[str, str]


def with_given(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """The tables with rows of given figures below ours, for the same benchmarks.

    Args:
        tables: Our tables.
        names: CSV files with the columns `model, benchmark, style` and one of figures (Tables 5 to
            7, 13, 14), or with a row for each benchmark as in Tables 10 and 15.

    Raises:
        ConfigError: A file is not there, or in no such form.
    """
    for name in names:
        rows = _read(name)
        columns = set(rows[0]) if rows else set()
        wide = [
            table
            for table, known in _WIDE.items()
            if columns == {"benchmark", *known} & columns and len(columns & set(known)) > 2
        ]
        if {"model", "benchmark", "style"} < columns and len(columns) == 4:
            figure = next(iter(columns - {"model", "benchmark", "style"}))
            target = "output_tokens" if "tokens" in figure else "scores"
            tables = [
                _add(one, _by_model(one, rows, figure)) if one.name == target else one
                for one in tables
            ]
        elif wide:
            tables = [
                _add(one, _by_benchmark(one, rows)) if one.name in wide else one for one in tables
            ]
        else:
            raise ConfigError(
                f"{name!r} is in no form of the paper's tables 5 to 7, 10 or 13 to 15; its columns "
                f"are {', '.join(sorted(columns)) or 'missing'}."
            )
    return list(tables)


def _read(name: str) -> list[dict[str, str]]:
    file = existing_file(name)
    if file is None:
        raise ConfigError(f"There is no file {name!r} with figures to compare.")
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as stream:
            return list(csv.DictReader(stream))
    except (OSError, UnicodeError, csv.Error) as error:
        raise ConfigError(f"{name!r} cannot be read as CSV ({error}).") from error


def _by_model(table: Table, rows: Sequence[Row], figure: str) -> Iterator[dict[str, str]]:
    """One row for each model and benchmark: its figure in every style."""
    made: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if row["benchmark"].lower() in _benchmarks(table) and row["style"] in _STYLE_COLUMNS:
            key = row["model"], row["benchmark"]
            cells = made.setdefault(key, {"model": row["model"], "benchmark": row["benchmark"]})
            cells[_STYLE_COLUMNS[row["style"]]] = row[figure]
            cells["metric"] = "" if figure == "score" else figure
    yield from made.values()


def _by_benchmark(table: Table, rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    for row in rows:
        if row["benchmark"].lower() in _benchmarks(table):
            named = {_WIDE[table.name].get(key, key): value for key, value in row.items()}
            yield named | {"pair": "-"}


def _benchmarks(table: Table) -> set[str]:
    place = table.columns.index("benchmark")
    return {str(row[place]).lower() for row in table.rows}


def _add(table: Table, rows: Iterator[dict[str, str]]) -> Table:
    added: list[tuple[Cell, ...]] = []
    for row in rows:
        marked = row | {"benchmark": f"{row['benchmark']} (given)"}
        added.append(tuple(marked.get(column) for column in table.columns))
    return replace(table, rows=(*table.rows, *added))
