"""`profile.csv`: one row a measurement, written as it is made, and read again to resume."""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from .csv_rows import read_csv_rows

Component = Literal["weights", "preprocess", "vision", "ttft", "decode"]

_Count = Annotated[int, Field(ge=0, le=10**9)]
_Figure = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None

_KEY = (
    "model",
    "backend",
    "dtype",
    "device",
    "attention",
    "weights",
    "component",
    "batch",
    "image_side",
    "query_tokens",
    "output_tokens",
)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One latency. Times are in milliseconds, for a whole batch.

    Attributes:
        model: Its name.
        backend: What ran it.
        dtype: Of its weights.
        device: Where it ran.
        attention: Attention implementation.
        weights: "real" or "random".
        component: What was measured. Time to first token includes the vision encoder; decoding is
            from the first token to as many more as `output_tokens`. "weights" stands for a model
            that could not be brought into memory, and so was skipped as a whole.
        batch: Equal prompts at once.
        image_side: Width and height of the picture, in pixels.
        image_tokens: Tokens it takes in a prompt.
        query_tokens: The others, where there is a prompt.
        input_tokens: Both together.
        output_tokens: Tokens written, forced to that number.
        repeats: How often it was measured.
        median_ms: Median, empty if it was skipped.
        low_ms: Lower quartile.
        high_ms: Upper quartile.
        floor_ms: What the machine's measured rates allow at best.
        bound: Which rate sets the floor: compute or memory.
        gflops: The machine's matrix rate behind the floor, in 10^9 operations a second.
        gigabytes: Its copy bandwidth, in 10^9 bytes a second.
        skipped: Why it was not measured.
    """

    model: str
    backend: str
    dtype: str
    device: str
    attention: str
    weights: str
    component: Component
    batch: Annotated[int, Field(ge=1)] = 1
    image_side: _Count = 0
    image_tokens: _Count = 0
    query_tokens: _Count = 0
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    repeats: _Count = 0
    median_ms: _Figure = None
    low_ms: _Figure = None
    high_ms: _Figure = None
    floor_ms: _Figure = None
    bound: str = ""
    gflops: _Figure = None
    gigabytes: _Figure = None
    skipped: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """What tells this measurement from every other one."""
        return tuple(str(getattr(self, name)) for name in _KEY)

    @property
    def share(self) -> float | None:
        """The floor over the median: 1 is as fast as the machine's rates allow."""
        if not self.median_ms or self.floor_ms is None:
            return None
        return self.floor_ms / self.median_ms


_COLUMNS = [field.name for field in fields(ProfileRow)]


class ProfileFile:
    """A folder's `profile.csv`.

    Attributes:
        rows: All of them, skipped ones too.
    """

    def __init__(self, folder: Path) -> None:
        """Open it, or start one."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "profile.csv"
        self.rows = read_rows(self._path)
        self._write(self.rows)

    def find(self, row: ProfileRow) -> ProfileRow | None:
        """A row that was measured before with these settings; what was skipped is tried again."""
        return next(
            (known for known in self.rows if known.key == row.key and not known.skipped), None
        )

    def forget(self, row: ProfileRow) -> None:
        """Take away a row with these settings, if there is one."""
        kept = [known for known in self.rows if known.key != row.key]
        if len(kept) < len(self.rows):
            self.rows = kept
            self._write(kept)

    def add(self, row: ProfileRow) -> None:
        """Write a row at once. It takes the place of one that was skipped before."""
        self.forget(row)
        self.rows.append(row)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, _COLUMNS).writerow(_shown(row))

    def _write(self, rows: Iterable[ProfileRow]) -> None:
        part = self._path.with_suffix(".part")
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS)
            writer.writeheader()
            writer.writerows(_shown(row) for row in rows)
        part.replace(self._path)


def read_rows(path: Path) -> list[ProfileRow]:
    """The rows of a `profile.csv`, none if it is missing; a last line cut short is left out.

    Raises:
        ProfilingInputError: A row is none of a profile.
    """
    if not path.exists():
        return []
    return [line.row for line in read_csv_rows(path, ProfileRow, torn=True)]


def _shown(row: ProfileRow) -> dict[str, object]:
    return {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in asdict(row).items()
    }
