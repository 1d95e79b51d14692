"""`profile.csv`: a row for each measurement, written as it is made, and read again to resume."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..configs.files import write_whole, writing
from .csv_rows import ProfilingInputError, read_csv_rows

Component = Literal["weights", "preprocess", "vision", "ttft", "decode"]

_Count = Annotated[int, Field(ge=0, le=10**9)]
_Figure = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None

SETTINGS = (
    "backend",
    "dtype",
    "device",
    "attention",
    "weights",
    "revision",
    "engine",
    "memory",
    "threads",
)
"""Columns that tell one way to run a model from another."""

_SIZES = ("batch", "image_side", "query_tokens", "output_tokens")


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
            that could not be loaded, and so was skipped as a whole.
        revision: Branch, tag or commit of a hub model.
        engine: Options of vLLM's engine, as NAME=VALUE.
        memory: vLLM on a GPU: share of its memory that the engine takes.
        threads: On a CPU: threads that torch computes with in this process.
        batch: Number of equal prompts.
        image_side: Width and height of the image, in pixels.
        image_tokens: Tokens it takes in a prompt.
        query_tokens: The others, where there is a prompt.
        input_tokens: Both together.
        output_tokens: Tokens generated, forced to that number.
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
    revision: str = ""
    engine: str = ""
    memory: _Figure = None
    threads: _Count | None = None
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
        sizes = (str(getattr(self, name)) for name in _SIZES)
        return (self.model, *self.settings.values(), self.component, *sizes)

    @property
    def settings(self) -> dict[str, str]:
        """How the model was run, by the names of `SETTINGS`; empty where it does not apply."""
        found = {name: getattr(self, name) for name in SETTINGS}
        return {name: "" if value is None else str(value) for name, value in found.items()}

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
        """Open or create it. Rows of models that an earlier run could not load are removed.

        Raises:
            ProfilingInputError: A file of this name is not a profile; it stays as it is.
            ConfigError: It cannot be written.
        """
        self._path = folder / "profile.csv"
        header = _header(self._path)
        if header and header != _COLUMNS:
            raise ProfilingInputError(
                f"{str(self._path)!r} has other columns than a profile and is left as it is; move "
                "it away, or name another folder."
            )
        found = read_rows(self._path)
        self.rows = [row for row in found if row.component != "weights"]
        is_whole = bool(header) and self._path.read_bytes().endswith(b"\n")
        if len(self.rows) < len(found) or not is_whole:
            self._write()

    def find(self, row: ProfileRow) -> ProfileRow | None:
        """Return the row measured before with these settings; skipped ones do not count."""
        return next(
            (
                known
                for known in self.rows
                if known.key == row.key and known.median_ms is not None and not known.skipped
            ),
            None,
        )

    def add(self, row: ProfileRow) -> None:
        """Write a row immediately, in place of one that was skipped before.

        Raises:
            ConfigError: The file cannot be written.
        """
        others = [known for known in self.rows if known.key != row.key]
        if len(others) < len(self.rows):
            self.rows = others
            self._write()
        self.rows.append(row)
        with writing(self._path), self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, _COLUMNS).writerow(_cells(row))

    def _write(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, _COLUMNS)
        writer.writeheader()
        writer.writerows(_cells(row) for row in self.rows)
        write_whole(self._path, text.getvalue())


def read_rows(path: Path) -> list[ProfileRow]:
    """Read a `profile.csv`; none if it is missing. An incomplete last line is ignored.

    Raises:
        ProfilingInputError: A row is not one of a profile.
    """
    if not path.exists():
        return []
    return [row for _, row in read_csv_rows(path, ProfileRow, torn=True)]


def impossible_rows(rows: Sequence[ProfileRow]) -> Iterator[str]:
    """Yield a sentence for each vision encoder slower than the first token that includes it."""
    first = [row for row in rows if row.component == "ttft" and row.median_ms]
    for row in rows:
        if row.component != "vision" or not row.median_ms:
            continue
        with_it = [
            one.median_ms
            for one in first
            if (one.model, one.settings, one.batch, one.image_side)
            == (row.model, row.settings, row.batch, row.image_side)
            and one.median_ms
            and one.median_ms < row.median_ms
        ]
        if with_it:
            yield (
                f"{row.model}, {row.image_side} px: the vision encoder took {row.median_ms:.1f} ms "
                f"and the first token, with it, {min(with_it):.1f} ms; the machine was too "
                "busy, or --repeats too small."
            )


def _header(path: Path) -> list[str]:
    """Return the first line's cells; none of an unreadable file, which `read_rows` refuses."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            return next(csv.reader(file), [])
    except (OSError, csv.Error):
        return []


def _cells(row: ProfileRow) -> dict[str, object]:
    return {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in asdict(row).items()
    }
