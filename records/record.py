"""One figure of a `NAME.json`, as every measuring command writes it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .json_files import write_json


@dataclass(frozen=True, slots=True)
class Record:
    """A figure.

    Attributes:
        name: What it says; no other record of the file has it.
        value: In the unit of `unit`; a text where that is "text"; None if it could not be had.
        unit: "ratio", "share", "ms", "s", "questions/s", "tokens", ...
        low: Lower end of its interval or spread; None if there is none.
        high: Upper end.
        questions: Number of questions that it is about; None if it is about none.
        note: Why there is no value, or what else was seen; empty if that is all.
    """

    name: str
    value: float | str | None
    unit: str
    low: float | None = None
    high: float | None = None
    questions: int | None = None
    note: str = ""

    @property
    def number(self) -> float | None:
        """The value, if it is a number."""
        return None if isinstance(self.value, str) else self.value

    def as_dict(self) -> dict[str, Any]:
        """The record as plain data: name, value and unit, and of the rest what there is."""
        absent = {key for key in ("low", "high", "questions") if getattr(self, key) is None}
        if not self.note:
            absent.add("note")
        return {key: value for key, value in asdict(self).items() if key not in absent}


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write figures as a list of flat JSON objects.

    Raises:
        ConfigError: They cannot be written.
    """
    write_json(path, [record.as_dict() for record in records])
