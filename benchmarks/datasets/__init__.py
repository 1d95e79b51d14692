"""Benchmarks as sets of questions: the demo world, public data sets, one's own file."""

from pathlib import Path

from ..question import Benchmark
from .chartqa import CHARTQA
from .errors import DataError
from .infovqa import INFOVQA
from .mmbench import MMBENCH
from .mmmu import MMMU
from .pope import POPE
from .public_set import PublicSet
from .question_file import load_question_file
from .realworldqa import REALWORLDQA
from .shapes import load_shapes

__all__ = ["BENCHMARKS", "DataError", "load_benchmark"]

_PUBLIC: dict[str, PublicSet] = {
    one.name: one for one in (POPE, MMMU, MMBENCH, CHARTQA, INFOVQA, REALWORLDQA)
}

BENCHMARKS: tuple[str, ...] = ("shapes", *_PUBLIC, "own")
"""Names that `load_benchmark` takes; "own" is a file of the user's."""


def load_benchmark(
    name: str,
    *,
    data: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    folder: Path,
) -> Benchmark:
    """Load a benchmark.

    Args:
        name: One of `BENCHMARKS`.
        data: For a public benchmark: another data set on the hub in the same columns
            ("owner/name"), or a folder or file of it (parquet, JSON, JSON Lines); by default the
            one on the hub. For "own": the JSON Lines file.
        split: Another split than the one that results are reported on.
        limit: How many questions. POPE, MMMU and ChartQA take them from their parts in turn,
            MMBench takes whole circles, the others take the first.
        folder: Where pictures that are only bytes are written, once each.

    Raises:
        DataError: No such benchmark, or its data cannot be had or used; names the row or line.
    """
    if limit is not None and limit < 1:
        raise DataError(f"The limit is {limit}; it must be at least 1.")
    if name in _PUBLIC:
        return _PUBLIC[name].load(data, split, limit, folder)
    if split is not None:
        raise DataError(f"{name} has no splits.")
    if name == "shapes":
        if data is not None:
            raise DataError("shapes is generated; it takes no data.")
        return load_shapes(limit, folder)
    if name != "own":
        raise DataError(f"There is no benchmark {name!r}; use one of {', '.join(BENCHMARKS)}.")
    if data is None:
        raise DataError("Questions of one's own need a file: give it as data.")
    return load_question_file(Path(data), limit)
