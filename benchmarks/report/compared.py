"""Figures from elsewhere beside ours: published tables as CSV, and the simulator's predictions."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...configs import ConfigError
from ...configs.files import existing_file
from .table import Cell, Table

_KEYS = ("model", "benchmark", "style")
_TOLD = 3

_STYLES = {
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

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Published:
    """A file's rows.

    Attributes:
        name: The file's name as the user wrote it.
        columns: Its header.
        rows: Its rows by the numbers of their lines.
    """

    name: str
    columns: tuple[str, ...]
    rows: Mapping[int, Row]


def with_published(tables: Sequence[Table], names: Sequence[str]) -> tuple[list[Table], list[str]]:
    """Put rows of published figures below ours, for the same benchmarks.

    Args:
        tables: Our tables.
        names: CSV files with the columns `model, benchmark, style` and one of figures (Tables 5 to
            7, 13, 14), or with a row for each benchmark as in Tables 10 and 15.

    Returns:
        The tables, and a warning for each file of which not every row is in them.

    Raises:
        ConfigError: A file is not there, or in no such form, or a figure is no number.
    """
    made, warnings = list(tables), []
    for name in names:
        published = _read(name)
        target, figures = _form(published)
        _check_numbers(published, figures)
        table = next((one for one in made if one.name == target), None)
        unknown = dict(_unknown(published, table))
        if unknown:
            warnings.append(
                f"{len(unknown)} of {len(published.rows)} rows of {name!r} have no counterpart "
                f"here: {_reasons(unknown)}"
            )
        if table is not None:
            known = [row for line, row in published.rows.items() if line not in unknown]
            rows = _by_model if target in ("output_tokens", "scores") else _by_benchmark
            added = rows(table, known, figures, Path(name).name)
            made[made.index(table)] = replace(table, rows=(*table.rows, *added))
    return made, warnings


def read_predictions(name: str) -> dict[tuple[str, str], float]:
    """Read the predicted seconds per question from a `simulate.json`.

    Returns:
        By benchmark (lower case) and strategy.

    Raises:
        ConfigError: The file is not there, or has no such figures.
    """
    file = existing_file(name)
    if file is None:
        raise ConfigError(f"There is no file {name!r}; `mai simulate --out DIR` writes one.")
    found = {}
    try:
        for record in json.loads(file.read_bytes()):
            benchmark, _, figure = record["name"].partition(".")
            strategy, _, kind = figure.partition(".")
            if kind == "total":
                found[benchmark.lower(), strategy] = record["value"] / record["questions"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise ConfigError(f"{name!r} is no simulate.json ({error!r}).") from error
    if not found:
        raise ConfigError(f"{name!r} holds no totals; name a simulate.json of `mai simulate`.")
    return found


def _read(name: str) -> _Published:
    file = existing_file(name)
    if file is None:
        raise ConfigError(f"There is no file {name!r} with figures to compare.")
    rows: dict[int, Row] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            columns = tuple(cell.strip() for cell in next(reader, []))
            for cells in filter(None, reader):
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
    twice = [column for column in columns if columns.count(column) > 1]
    if twice:
        raise ConfigError(f"{name!r} has the column {twice[0]!r} twice.")
    if not rows:
        raise ConfigError(f"{name!r} has a header and no rows.")
    return _Published(name, columns, rows)


def _form(published: _Published) -> tuple[str, tuple[str, ...]]:
    """Return the table that the rows belong to, and the columns of their figures."""
    name, columns = published.name, set(published.columns)
    if columns & {"model", "style"}:
        figures = tuple(one for one in published.columns if one not in _KEYS)
        _need(published, _KEYS)
        if len(figures) != 1:
            raise ConfigError(
                f"{name!r} needs one column of figures beside {', '.join(_KEYS)}, not "
                f"{len(figures)}{': ' if figures else ''}{', '.join(figures)}."
            )
        return ("output_tokens" if "tokens" in figures[0] else "scores"), figures
    for target, known in _WIDE.items():
        if not (columns - {"questions"}) & set(known):
            continue
        _need(published, ("benchmark",))
        strange = [one for one in published.columns if one not in {"benchmark", *known}]
        if strange:
            raise ConfigError(
                f"{name!r} has a column {strange[0]!r}; beside benchmark it takes "
                f"{', '.join(known)}."
            )
        return target, tuple(one for one in published.columns if one != "benchmark")
    raise ConfigError(
        f"{name!r} is in no form of the paper's tables 5 to 7, 10 or 13 to 15; its columns are "
        f"{', '.join(published.columns)}, instead of {', '.join(_KEYS)} and a figure, or benchmark "
        "and mai_score or others of tables 10 and 15."
    )


def _need(published: _Published, needed: Sequence[str]) -> None:
    absent = [one for one in needed if one not in published.columns]
    if absent:
        raise ConfigError(f"{published.name!r} has no column {' and no column '.join(absent)}.")


def _check_numbers(published: _Published, figures: Sequence[str]) -> None:
    for line, row in published.rows.items():
        for figure in figures:
            try:
                number = math.isfinite(float(row[figure] or 0))
            except ValueError:
                number = False
            if not number:
                raise ConfigError(
                    f"{published.name!r}, line {line}: {figure} is {row[figure]!r}, which is no "
                    "number."
                )


def _unknown(published: _Published, table: Table | None) -> Iterator[tuple[int, str]]:
    """Yield the lines that no row of the table can be made of, and why."""
    ours = _ours(table) if table else {}
    for line, row in published.rows.items():
        if table is None:
            yield line, "the report has no such table"
        elif row["benchmark"].lower() not in ours:
            yield line, f"no benchmark {row['benchmark']!r}"
        elif "style" in row and _STYLES.get(row["style"]) not in table.columns:
            yield line, f"no style {row['style']!r}"


def _reasons(unknown: Mapping[int, str]) -> str:
    """Return the first reasons, each with its first line."""
    first: dict[str, int] = {}
    for line, why in unknown.items():
        first.setdefault(why, line)
    told = [f"line {line}: {why}" for why, line in first.items()]
    return "; ".join(told[:_TOLD]) + ("; ..." if told[_TOLD:] else ".")


def _ours(table: Table) -> dict[str, dict[str, Cell]]:
    """Return a row of ours for each benchmark (lower case)."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {str(row["benchmark"]).lower(): row for row in rows}


def _by_model(
    table: Table, rows: Sequence[Row], figures: Sequence[str], label: str
) -> Iterator[tuple[Cell, ...]]:
    """Yield one row for each model and benchmark: its figure in every style."""
    made: dict[tuple[str, str], dict[str, Cell]] = {}
    ours = _ours(table)
    for row in rows:
        cells = made.setdefault((row["model"], row["benchmark"]), {})
        own = ours[row["benchmark"].lower()].get("metric") if figures[0] == "score" else figures[0]
        cells |= {"model": row["model"], "benchmark": f"{row['benchmark']} ({label})"}
        cells |= {"metric": own, _STYLES[row["style"]]: _shown(row[figures[0]], table.places)}
    for cells in made.values():
        yield tuple(cells.get(column) for column in table.columns)


def _by_benchmark(
    table: Table, rows: Sequence[Row], figures: Sequence[str], label: str
) -> Iterator[tuple[Cell, ...]]:
    ours = _ours(table)
    for row in rows:
        cells: dict[str, Cell] = {"benchmark": f"{row['benchmark']} ({label})"}
        for figure in figures:
            column = _WIDE[table.name][figure]
            is_count = isinstance(ours[row["benchmark"].lower()][column], int)
            cells[column] = _shown(row[figure], 0 if is_count else table.places)
        yield tuple(cells.get(column) for column in table.columns)


def _shown(text: str, places: int) -> str | None:
    return f"{float(text):.{places}f}" if text else None
