"""Figures from elsewhere beside ours: published tables as CSV, and the simulator's predictions."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...configs import ConfigError
from ...configs.files import existing_file
from .evaluated import Frame
from .table import Cell, Table

_KEYS = ("model", "benchmark", "style")

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
        frame = _read(name)
        target, figures = _form(name, frame)
        _check_numbers(name, frame[figures])
        table = next((one for one in made if one.name == target), None)
        unknown = list(_unknown(frame, table))
        lost = [reason for reason in unknown if reason]
        if lost:
            warnings.append(
                f"{len(lost)} of {len(frame)} rows of {name!r} have no counterpart here: "
                f"{'; '.join(dict.fromkeys(lost))}."
            )
        if table is not None:
            known = frame[[not reason for reason in unknown]]
            rows = _by_benchmark if target in _WIDE else _by_model
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
    found = {}
    try:
        for record in json.loads(Path(name).expanduser().read_bytes()):
            benchmark, _, figure = record["name"].partition(".")
            strategy, _, kind = figure.partition(".")
            if kind == "total":
                found[benchmark.lower(), strategy] = record["value"] / record["questions"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{name!r} is no simulate.json of `mai simulate --out DIR` ({error!r})."
        ) from error
    if not found:
        raise ConfigError(f"{name!r} holds no totals; name a simulate.json of `mai simulate`.")
    return found


def _read(name: str) -> Frame:
    import pandas as pd

    file = existing_file(name)
    if file is None:
        raise ConfigError(f"There is no file {name!r} with figures to compare.")
    try:
        return pd.read_csv(file, encoding="utf-8-sig", skipinitialspace=True, index_col=False)
    except (OSError, ValueError) as error:  # pandas's own errors are ValueErrors
        raise ConfigError(f"{name!r} cannot be read as CSV ({str(error).strip()}).") from error


def _form(name: str, frame: Frame) -> tuple[str, list[str]]:
    """Return the table that the rows belong to, and the columns of their figures."""
    columns = list(frame.columns)
    figures = [one for one in columns if one not in _KEYS]
    if set(_KEYS) <= set(columns) and len(figures) == 1 and len(frame):
        return ("output_tokens" if "tokens" in figures[0] else "scores"), figures
    for target, known in _WIDE.items():
        if set(columns) - set(figures) == {"benchmark"} and set(figures) <= set(known):
            return target, figures
    wide = " or ".join(f"some of {', '.join(known)}" for known in _WIDE.values())
    raise ConfigError(
        f"{name!r} is in no form of the paper's tables 5 to 7, 10 or 13 to 15: it needs rows with "
        f"{', '.join(_KEYS)} and one figure, or with benchmark and {wide}; its columns are "
        f"{', '.join(columns)}."
    )


def _check_numbers(name: str, figures: Frame) -> None:
    for column in figures.select_dtypes(exclude="number"):
        texts = figures[column].dropna().astype(str)
        wrong = texts[~texts.str.fullmatch(r"-?\d+(\.\d+)?")]
        for line, text in wrong.head(1).items():
            raise ConfigError(f"{name!r}, row {line + 1}: {column} is {text!r}, no number.")


def _unknown(frame: Frame, table: Table | None) -> Iterator[str]:
    """Yield of each row why the table has no place for it; empty if it has one."""
    ours = _ours(table) if table else {}
    for row in frame.to_dict("records"):
        if table is None:
            yield "the report has no such table"
        elif str(row["benchmark"]).lower() not in ours:
            yield f"no benchmark {row['benchmark']!r}"
        elif "style" in row and _STYLES.get(row["style"]) not in table.columns:
            yield f"no style {row['style']!r}"
        else:
            yield ""


def _ours(table: Table) -> dict[str, dict[str, Cell]]:
    """Return a row of ours for each benchmark (lower case)."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {str(row["benchmark"]).lower(): row for row in rows}


def _by_model(
    table: Table, rows: Frame, figures: Sequence[str], label: str
) -> Iterator[tuple[Cell, ...]]:
    """Yield one row for each model and benchmark: its figure in every style."""
    (figure,), ours = figures, _ours(table)
    for (model, benchmark), own in rows.groupby(["model", "benchmark"], sort=False):
        metric = ours[benchmark.lower()].get("metric") if figure == "score" else figure
        cells = {"model": model, "benchmark": f"{benchmark} ({label})", "metric": metric}
        for style, value in zip(own["style"], own[figure], strict=True):
            cells[_STYLES[style]] = _shown(value, table.places)
        yield tuple(cells.get(column) for column in table.columns)


def _by_benchmark(
    table: Table, rows: Frame, figures: Sequence[str], label: str
) -> Iterator[tuple[Cell, ...]]:
    ours = _ours(table)
    for row in rows.to_dict("records"):
        cells: dict[str, Cell] = {"benchmark": f"{row['benchmark']} ({label})"}
        for figure in figures:
            column = _WIDE[table.name][figure]
            is_count = isinstance(ours[row["benchmark"].lower()][column], int)
            cells[column] = _shown(row[figure], 0 if is_count else table.places)
        yield tuple(cells.get(column) for column in table.columns)


def _shown(value: Any, places: int) -> str | None:
    return f"{value:.{places}f}" if value == value else None  # noqa: PLR0124  not a number
