"""Where the rows of a public benchmark are, and how they become questions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ...configs.files import existing_file, existing_folder
from ..question import Benchmark, BenchmarkQuestion
from .images import image_file
from .rows import DataError, Row, Rows, hub_rows, local_rows

_PATH_ENDINGS = (".parquet", ".json", ".jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSet:
    """What is particular to one benchmark.

    Attributes:
        name: The benchmark's name, and that of its prompts and its metric.
        hub: Its data set on the hub.
        config: The configuration there.
        split: The split that results are reported on.
        columns: Columns that `question` and `images` need.
        question: From a row and its number to the question, without its images.
        images: The cells of a row that hold its images, in order.
        renamed: From a row of the benchmark's original files to the hub's columns.
        in_turn: From rows to their numbers in the order in which a limit takes them.
    """

    name: str
    hub: str
    config: str | None = None
    split: str
    columns: tuple[str, ...]
    question: Callable[[Row, int], BenchmarkQuestion]
    images: Callable[[Row], Iterable[Any]] = lambda row: [row["image"]]
    renamed: Callable[[Row], Row] = lambda row: row
    in_turn: Callable[[Rows], Iterable[int]] = lambda rows: range(len(rows.table))

    def load(
        self, data: str | Path | None, split: str | None, limit: int | None, folder: Path
    ) -> Benchmark:
        """Read the benchmark; parameters as for `load_benchmark`.

        Raises:
            DataError: The data cannot be had, or a row cannot be used.
        """
        rows = self._rows(data, split, folder)
        numbers: Iterable[int] = range(len(rows.table))
        if limit is not None:
            numbers = sorted(
                number for number, _ in zip(self.in_turn(rows), range(limit), strict=False)
            )
        questions = [self._question(rows, number, folder) for number in numbers]
        if not questions:
            raise DataError(f"{rows.source} holds no questions.")
        seen: set[str] = set()
        for question in questions:
            if question.id in seen:
                raise DataError(f"{rows.source}: two questions have the id {question.id!r}.")
            seen.add(question.id)
        return Benchmark(
            name=self.name, questions=tuple(questions), prompts=self.name, metric=self.name
        )

    def _rows(self, data: str | Path | None, split: str | None, folder: Path) -> Rows:
        own = split or self.split
        if data is None:
            return hub_rows(self.hub, self.config, own)
        path = existing_file(data) or existing_folder(data)
        if path is not None:
            tables = folder / "tables"
            rows = local_rows(path, self.config, own, tables, must_have_split=split is not None)
            if isinstance(rows.table, list):  # JSON files may be the benchmark's original ones
                return replace(rows, table=[self.renamed(row) for row in rows.table])
            return rows
        text = str(data)
        if text.count("/") != 1 or text[0] in "./~" or text.endswith(_PATH_ENDINGS):
            raise DataError(
                f"There is no file or folder {text!r}; a data set on the hub is named owner/name."
            )
        return hub_rows(text, self.config, own)

    def _question(self, rows: Rows, number: int, folder: Path) -> BenchmarkQuestion:
        row = rows.table[number]
        absent = [name for name in self.columns if name not in row]
        try:
            if absent:
                raise DataError(
                    f"there is no {absent[0]!r}; {self.name} has the columns "
                    f"{', '.join(self.columns)}."
                )
            images = [
                image_file(cell, rows.folder, folder / "pictures") for cell in self.images(row)
            ]
            return replace(self.question(row, number), images=tuple(images))
        except DataError as error:
            raise DataError(f"{rows.source}, row {number + 1}: {error}") from error


def taken_in_turn(column: str) -> Callable[[Rows], Iterable[int]]:
    """Return an order that takes one row of each value of a column, then the next of each."""

    def order(rows: Rows) -> Iterable[int]:
        by_value: dict[Any, list[int]] = {}
        for number, value in enumerate(rows.column(column)):
            by_value.setdefault(value, []).append(number)
        rounds = chain.from_iterable(zip_longest(*by_value.values()))
        return (number for number in rounds if number is not None)

    return order


def text_of(row: Row, column: str) -> str:
    """Return a text or number of a row as a text.

    Raises:
        DataError: The row has none there.
    """
    value = row[column]
    if not isinstance(value, str | int | float) or not str(value).strip():
        raise DataError(f"{column!r} is {value!r}, not a text.")
    return str(value).strip()
