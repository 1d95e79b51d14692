"""The rows of a data set: from the Hugging Face hub, from parquet files, or from JSON files."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import DataError
from .text_files import numbered_lines, parsed, read_text

Row = Mapping[str, Any]

EVERY_CONFIG = "*"
"""Stands for all configurations of a data set, one after the other."""
_JSON = (".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are read one by one; pictures come as `{"bytes": ..., "path": ...}`.

    Attributes:
        table: The rows in order, a list or a `datasets.Dataset`; reading one reads no other.
        source: Where they are from, as messages name it.
        folder: What paths of pictures are relative to.
    """

    table: Any
    source: str
    folder: Path

    def column(self, name: str) -> list[Any]:
        """One column, without reading the others. Rows that lack it have None."""
        if isinstance(self.table, list):
            return [row.get(name) for row in self.table]
        names = self.table.column_names
        return list(self.table[name]) if name in names else [None] * len(self.table)


def hub_rows(name: str, config: str | None, split: str) -> Rows:
    """Rows of a data set on the hub, downloaded once into the cache of `datasets`.

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
        configs = _configs(datasets.get_dataset_config_names(name), config) if config else [None]
        parts = [datasets.load_dataset(name, one, split=split) for one in configs]
    except (OSError, ValueError, LookupError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"The data set {name!r}, split {split!r}, cannot be loaded from the hub: "
            f"{_sentence(error)} Give a folder or file of it as data (--data), or check name and "
            "split."
        ) from error
    return Rows(_undecoded(datasets.concatenate_datasets(parts)), name, Path.cwd())


def local_rows(path: Path, config: str | None, split: str | None, cache: Path) -> Rows:
    """Rows of a parquet, JSON or JSON Lines file, or of all such files of a folder.

    A folder is searched like a clone of the data set's repository: below a folder of the
    configuration's name if there is one, for files of the split ("test-00000-of-00001.parquet"),
    else for all files. JSON files are looked at where there is no parquet file.

    Args:
        path: The file or folder.
        config: Name of the configuration.
        split: Name of the split; None takes whatever files there are.
        cache: Folder for the tables that `datasets` makes of parquet files.

    Raises:
        DataError: No such files, or they cannot be read.
    """
    files = [path] if path.is_file() else _files(path, config, split)
    folder = path if path.is_dir() else path.parent
    if files[0].suffix in _JSON:
        return Rows([row for file in files for row in _json_rows(file)], str(path), folder)
    datasets = _datasets()
    try:
        table = datasets.load_dataset(
            "parquet", data_files=[str(file) for file in files], split="train", cache_dir=str(cache)
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


def _files(folder: Path, config: str | None, split: str | None) -> list[Path]:
    if config and (folder / config).is_dir():
        folder = folder / config
    found = sorted(folder.rglob("*.parquet")) or sorted(
        file for file in folder.iterdir() if file.suffix in _JSON
    )
    if not found:
        raise DataError(f"{folder} holds no parquet, JSON or JSON Lines files.")
    of_split = [file for file in found if split and _is_of(file, split)]
    return of_split or found


def _is_of(file: Path, split: str) -> bool:
    return file.stem == split or file.stem.startswith(f"{split}-") or file.parent.name == split


def _json_rows(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON list or of JSON lines; each also says which file it is from."""
    text = read_text(file)
    rows = _listed(file, text) if text.lstrip().startswith("[") else _lines(file, text)
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file} must hold objects, one a question.")
    return [{"file": file.stem, **row} for row in rows]


def _listed(file: Path, text: str) -> list[Any]:
    try:
        rows: list[Any] = parsed(text)
    except DataError as error:
        raise DataError(f"{file} begins like a JSON list, but {error}") from error
    return rows


def _lines(file: Path, text: str) -> list[Any]:
    rows = []
    for number, line in numbered_lines(text):
        try:
            rows.append(parsed(line))
        except DataError as error:
            raise DataError(f"{file}, line {number}: {error}") from error
    return rows


def _undecoded(table: Any) -> Any:
    """The table with pictures as the bytes that they are stored as."""
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


def _sentence(error: Exception) -> str:
    """The first line of an error, as a sentence."""
    lines = str(error).strip().splitlines()
    return f"{lines[0].rstrip('.')}." if lines else f"{type(error).__name__}."
