"""Published figures beside our own: rows from CSV files in the form of the paper's tables."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...configs import ConfigError
from ...configs.files import existing_file
from .table import Cell, Table

_KEYS = ("model", "benchmark", "style")
_TOLD = 3

_STYLE_COLUMNS = {
    "S": "S",
    "E": "E",
    "R": "R",
    "R_two_stage": "two-stage",
    "direct": "S",
    "explain": "E",
    "reason": "R",
    "two_stage": "two-stage",
}

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
_SCORES = {
    "mai_score",
    "small_S",
    "small_R",
    "large_S",
    "full_transfer",
    "R_score",
    "R_two_stage_score",
}

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Compared:
    """Tables with given figures.

    Attributes:
        tables: The tables.
        warnings: A sentence for each file of which not every row is in them.
    """

    tables: list[Table]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class _Given:
    """A file's rows.

    Attributes:
        name: The file's name as it was given.
        columns: Its header.
        rows: Its rows by the numbers of their lines.
    """

    name: str
    columns: tuple[str, ...]
    rows: Mapping[int, Row]

    @property
    def label(self) -> str:
        """What marks its rows in a table."""
        return Path(self.name).name


def with_given(tables: Sequence[Table], names: Sequence[str]) -> Compared:
    """The tables with rows of given figures below ours, for the same benchmarks.

    Args:
        tables: Our tables.
        names: CSV files with the columns `model, benchmark, style` and one of figures (Tables 5 to
            7, 13, 14), or with a row for each benchmark as in Tables 10 and 15.

    Raises:
        ConfigError: A file is not there, or in no such form, or a figure is no number.
    """
    made, warnings = list(tables), []
    for name in names:
        given = _read(name)
        target, figures = _form(given)
        _check_numbers(given, figures)
        table = next((one for one in made if one.name == target), None)
        unknown = dict(_unknown(given, table))
        if unknown:
            warnings.append(
                f"{len(unknown)} of {len(given.rows)} rows of {name!r} have no counterpart here: "
                f"{_reasons(unknown)}"
            )
        if table is not None:
            known = [row for line, row in given.rows.items() if line not in unknown]
            rows = _by_model if target in ("output_tokens", "scores") else _by_benchmark
            added = tuple(rows(table, known, figures, given.label))
            made[made.index(table)] = replace(table, rows=(*table.rows, *added))
    return Compared(made, warnings)


def _read(name: str) -> _Given:
    file = existing_file(name)
    if file is None:
        raise ConfigError(f"There is no file {name!r} with figures to compare.")
    rows: dict[int, Row] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            columns = tuple(cell.strip() for cell in next(reader, []))
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(columns):
                    raise ConfigError(
                        f"{name!r}, line {reader.line_num}: {len(cells)} cells, but the header "
                        f"names {len(columns)} columns."
                    )
                values = (cell.strip() for cell in cells)
                rows[reader.line_num] = dict(zip(columns, values, strict=True))
    except (OSError, UnicodeError, csv.Error) as error:
        raise ConfigError(f"{name!r} cannot be read as CSV ({error}).") from error
    if not columns:
        raise ConfigError(f"{name!r} is empty; its first line names the columns.")
    twice = [column for column in dict.fromkeys(columns) if columns.count(column) > 1]
    if twice:
        raise ConfigError(f"{name!r} has the column {twice[0]!r} twice.")
    if not rows:
        raise ConfigError(f"{name!r} has a header and no rows.")
    return _Given(name, columns, rows)


def _form(given: _Given) -> tuple[str, tuple[str, ...]]:
    """The table that the rows belong to, and the columns of their figures."""
    columns = set(given.columns)
    if columns & {"model", "style"}:
        figures = tuple(one for one in given.columns if one not in _KEYS)
        _need(given, set(_KEYS))
        if len(figures) != 1:
            raise ConfigError(
                f"{given.name!r} needs one column of figures beside {', '.join(_KEYS)}, not "
                f"{len(figures)}{': ' if figures else ''}{', '.join(figures)}."
            )
        return ("output_tokens" if "tokens" in figures[0] else "scores"), figures
    for target, known in _WIDE.items():
        if not (columns - {"questions"}) & set(known):
            continue
        _need(given, {"benchmark"})
        strange = [one for one in given.columns if one not in {"benchmark", *known}]
        if strange:
            raise ConfigError(
                f"{given.name!r} has a column {strange[0]!r}; beside benchmark it takes "
                f"{', '.join(known)}."
            )
        return target, tuple(one for one in given.columns if one != "benchmark")
    raise ConfigError(
        f"{given.name!r} is in no form of the paper's tables 5 to 7, 10 or 13 to 15; its columns "
        f"are {', '.join(given.columns)}, instead of {', '.join(_KEYS)} and a figure, or benchmark "
        "and mai_score or others of tables 10 and 15."
    )


def _need(given: _Given, needed: set[str]) -> None:
    absent = [one for one in _KEYS if one in needed and one not in given.columns]
    if absent:
        raise ConfigError(f"{given.name!r} has no column {' and no column '.join(absent)}.")


def _check_numbers(given: _Given, figures: Sequence[str]) -> None:
    for line, row in given.rows.items():
        for figure in figures:
            if row[figure] and not _is_number(row[figure]):
                raise ConfigError(
                    f"{given.name!r}, line {line}: {figure} is {row[figure]!r}, which is no number."
                )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _unknown(given: _Given, table: Table | None) -> Iterator[tuple[int, str]]:
    """Lines that no row of the table can be made of, and why."""
    ours = {} if table is None else _benchmarks(table)
    for line, row in given.rows.items():
        if table is None:
            yield line, "the report has no such table"
        elif row["benchmark"].lower() not in ours:
            yield line, f"no benchmark {row['benchmark']!r}"
        elif "style" in row and _STYLE_COLUMNS.get(row["style"]) not in table.columns:
            yield line, f"no style {row['style']!r}"


def _reasons(unknown: Mapping[int, str]) -> str:
    """The first reasons, each with its first line."""
    first: dict[str, int] = {}
    for line, why in unknown.items():
        first.setdefault(why, line)
    told = [f"line {line}: {why}" for why, line in first.items()]
    return "; ".join(told[:_TOLD]) + ("; ..." if told[_TOLD:] else ".")


def _benchmarks(table: Table) -> dict[str, Sequence[Cell]]:
    """A row of ours for each benchmark."""
    place = table.columns.index("benchmark")
    return {str(row[place]).lower(): row for row in table.rows}


def _by_model(
    table: Table, rows: Sequence[Row], figures: Sequence[str], label: str
) -> Iterator[tuple[Cell, ...]]:
    """One row for each model and benchmark: its figure in every style."""
    ours, made = _benchmarks(table), dict[tuple[str, str], dict[str, Cell]]()
    for row in rows:
        key = row["model"], row["benchmark"]
        cells = made.setdefault(key, {"model": row["model"], "benchmark": _marked(row, label)})
        cells[_STYLE_COLUMNS[row["style"]]] = _shown(row[figures[0]], table.places)
        if "metric" in table.columns:
            own = ours[row["benchmark"].lower()][table.columns.index("metric")]
            cells["metric"] = own if figures[0] == "score" else figures[0]
    for cells in made.values():
        yield tuple(cells.get(column) for column in table.columns)


def _by_benchmark(
    table: Table, rows: Sequence[Row], figures: Sequence[str], label: str
) -> Iterator[tuple[Cell, ...]]:
    for row in rows:
        cells: dict[str, Cell] = {"benchmark": _marked(row, label)}
        for figure in figures:
            column = _WIDE[table.name][figure]
            cells[column] = _shown(row[figure], table.places if figure in _SCORES else 0)
        yield tuple(cells.get(column) for column in table.columns)


def _marked(row: Row, label: str) -> str:
    return f"{row['benchmark']} ({label})"


def _shown(text: str, places: int) -> str | None:
    return f"{float(text):.{places}f}" if text else None
