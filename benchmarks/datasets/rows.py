"""The rows of a data set: from the Hugging Face hub, from parquet files, or from JSON files."""

import codecs
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

EVERY_CONFIG = "*"
"""Stands for all configurations of a data set, one after the other."""

_JSON = (".json", ".jsonl")
_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 10


class DataError(ValueError):
    """Data that cannot be used; the message says where the error is and what to do."""


class DataListError(DataError):
    """Several errors; the message has a line for each."""

    @classmethod
    def of(cls, what: str, errors: Sequence[str]) -> DataError:
        """Return the error about what was found together.

        Args:
            what: What they are about; it begins the message.
            errors: Each in one sentence, at least one; ten are shown.
        """
        if len(errors) == 1:
            return DataError(f"{what}, {errors[0]}")
        lines = [f"{what}:", *errors[:_SHOWN]]
        if len(errors) > _SHOWN:
            lines.append(f"and {len(errors) - _SHOWN} more.")
        return cls("\n".join(lines))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are read one by one; images come as `{"bytes": ..., "path": ...}`.

    Attributes:
        table: The rows in order, a list or a `datasets.Dataset`; reading one reads no other.
        source: Where they are from, as messages name it.
        folder: What paths of images are relative to.
    """

    table: Any
    source: str
    folder: Path

    def column(self, name: str) -> list[Any]:
        """Return one column, without reading the others. Rows that lack it have None."""
        if isinstance(self.table, list):
            return [row.get(name) for row in self.table]
        names = self.table.column_names
        return list(self.table[name]) if name in names else [None] * len(self.table)


def hub_rows(name: str, config: str | None, split: str) -> Rows:
    """Return rows of a data set on the hub, downloaded once into the cache of `datasets`.

    Args:
        name: As on the hub, "owner/name".
        config: Its configuration, `EVERY_CONFIG`, or None for its default. A data set with only
            one is taken as it is, whatever that is called.
        split: Name of the split.

    Raises:
        DataError: No such data set, configuration or split, or no connection.
    """
    datasets = _datasets()
    try:
        with _quiet(datasets, bars=True):
            known = datasets.get_dataset_config_names(name) if config else []
            configs = _configs(known, config) if config else [None]
            parts = [datasets.load_dataset(name, one, split=split) for one in configs]
    except (OSError, ValueError, LookupError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"The data set {name!r}, split {split!r}, cannot be loaded from the hub: "
            f"{_sentence(error)} Give a folder or file of it as data (--data), or check name and "
            "split."
        ) from error
    return Rows(_undecoded(datasets.concatenate_datasets(parts)), name, Path.cwd())


def local_rows(
    path: Path, config: str | None, split: str, cache: Path, *, must_have_split: bool = False
) -> Rows:
    """Return rows of a parquet, JSON or JSON Lines file, or of all such files of a folder.

    A folder is searched like a clone of the data set's repository: below a folder of the
    configuration's name if there is one, for files of the split ("test-00000-of-00001.parquet",
    "test_human.json"), else for all files. JSON files are read where there is no parquet file.
    Files that are not named after splits may have the split of each row in a column "split".

    Args:
        path: The file or folder.
        config: Name of the configuration.
        split: Name of the split.
        cache: Folder for the tables that `datasets` makes of parquet files.
        must_have_split: Whether the user named the split; otherwise all rows are taken where there
            is none of its name.

    Raises:
        DataError: No such files or split, or they cannot be read.
    """
    found = [path] if path.is_file() else _files(path, config)
    files = [file for file in found if _is_of(file, split)]
    rows = _read(path, files or found, cache)
    if files or not must_have_split:
        return rows
    return _of_split(rows, split, found)


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark.

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
    """Return the lines of JSON Lines that are not blank, with their numbers from 1.

    JSON texts may hold other line separators as they are: only line feeds end a line.
    """
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def parse_json(text: str) -> Any:
    """Parse a JSON value.

    Raises:
        DataError: It is none, or is nested too deeply; begins in the middle of a sentence.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise DataError("it is nested too deeply.") from error
    except ValueError as error:
        raise DataError(f"it is not JSON: {error}.") from error


def _read(path: Path, files: list[Path], cache: Path) -> Rows:
    folder = path if path.is_dir() else path.parent
    if files[0].suffix in _JSON:
        return Rows([row for file in files for row in _json_rows(file)], str(path), folder)
    datasets = _datasets()
    try:
        with _quiet(datasets, bars=False):
            table = datasets.load_dataset(
                "parquet",
                data_files=[str(file) for file in files],
                split="train",
                cache_dir=str(cache),
            )
    except (OSError, ValueError, LookupError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{path} cannot be read as parquet: {_sentence(error)}") from error
    return Rows(_undecoded(table), str(path), folder)


def _configs(known: list[str], config: str) -> list[str]:
    if config == EVERY_CONFIG or len(known) == 1:
        return known
    if config not in known:
        raise ValueError(f"Of its configurations, {', '.join(known)}, none is {config!r}.")
    return [config]


def _of_split(rows: Rows, split: str, files: list[Path]) -> Rows:
    """Return the rows whose column "split" says so.

    Raises:
        DataError: There are none; names the splits that there are.
    """
    column = rows.column("split")
    numbers = [number for number, value in enumerate(column) if value == split]
    if not numbers:
        known = {str(value) for value in column if value is not None}
        known = known or {file.stem.split("-")[0] for file in files}
        raise DataError(
            f"{rows.source} has no split {split!r}, but {', '.join(sorted(known)[:_SHOWN])}; name "
            "one of these, or leave the split out."
        )
    if isinstance(rows.table, list):
        return replace(rows, table=[rows.table[number] for number in numbers])
    return replace(rows, table=rows.table.select(numbers))


def _files(folder: Path, config: str | None) -> list[Path]:
    if config and (folder / config).is_dir():
        folder = folder / config
    found = sorted(folder.rglob("*.parquet")) or sorted(
        file for file in folder.iterdir() if file.suffix in _JSON
    )
    if not found:
        raise DataError(f"{folder} holds no parquet, JSON or JSON Lines files.")
    return found


def _is_of(file: Path, split: str) -> bool:
    """Whether a file is named after a split, or lies in a folder that is."""
    beginnings = (f"{split}-", f"{split}_")
    return split in (file.stem, file.parent.name) or file.stem.startswith(beginnings)


def _json_rows(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON list or of JSON lines; each also says which file it is from."""
    text = read_text(file)
    rows = []
    if text.lstrip().startswith("["):
        try:
            rows = parse_json(text)
        except DataError as error:
            raise DataError(f"{file} begins like a JSON list, but {error}") from error
    else:
        for number, line in numbered_lines(text):
            try:
                rows.append(parse_json(line))
            except DataError as error:
                raise DataError(f"{file}, line {number}: {error}") from error
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file} must hold objects, one a question.")
    return [{"file": file.stem, **row} for row in rows]


def _undecoded(table: Any) -> Any:
    """Return the table with images as the bytes that they are stored as."""
    from datasets import Image

    for name, feature in table.features.items():
        if isinstance(feature, Image):
            table = table.cast_column(name, Image(decode=False))
    return table


def _datasets() -> Any:
    if find_spec("datasets") is None:
        raise DataError(
            "This benchmark needs the package datasets: "
            "pip install 'langgraph-mai[benchmarks]' brings it."
        )
    import datasets

    return datasets


@contextmanager
def _quiet(datasets: Any, *, bars: bool) -> Iterator[None]:
    """Silence `datasets` and the hub while they load: errors are reported in one sentence.

    Args:
        datasets: The module.
        bars: Whether progress is to be seen on a terminal.
    """
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    had_bars = not datasets.are_progress_bars_disabled()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    if not (bars and sys.stderr.isatty()):
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if had_bars:
            datasets.enable_progress_bars()


def _sentence(error: Exception) -> str:
    """Return the first line of an error, as a sentence."""
    lines = str(error).strip().splitlines()
    return f"{lines[0].rstrip('.')}." if lines else f"{type(error).__name__}."
