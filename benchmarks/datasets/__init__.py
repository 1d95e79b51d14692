"""Benchmarks as sets of questions: the demo world, public data sets, the user's own file."""

from pathlib import Path
from typing import cast

from ...answers import AnswerType
from ...demo.held_out import COUNT, REPORT_SEED, held_out
from ..question import Benchmark, BenchmarkQuestion
from .images import fetch_images
from .public import CHARTQA, INFOVQA, MMBENCH, MMMU, POPE, REALWORLDQA
from .question_file import load_question_file
from .rows import DataError, DataListError

__all__ = [
    "BENCHMARKS",
    "DataError",
    "DataListError",
    "fetch_images",
    "load_benchmark",
    "load_shapes",
]

_PUBLIC = {one.name: one for one in (POPE, MMMU, MMBENCH, CHARTQA, INFOVQA, REALWORLDQA)}

CALIBRATION_SEED = 80_808
"""Seed of the split "calibration" of shapes."""

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
        split: Another split than the one that results are reported on; of shapes, "calibration".
        limit: How many questions. POPE, MMMU and ChartQA take them from their parts in turn,
            MMBench takes whole circles, the others take the first.
        folder: Where images that are only bytes are written, once each.

    Raises:
        DataError: No such benchmark, or its data cannot be had or used; names the row or line.
    """
    if limit is not None and limit < 1:
        raise DataError(f"The limit is {limit}; it must be at least 1.")
    if name in _PUBLIC:
        return _PUBLIC[name].load(data, split, limit, folder)
    if split is not None and (name, split) != ("shapes", "calibration"):
        raise DataError(f"{name} has no split {split!r}.")
    if name == "shapes":
        if data is not None:
            raise DataError("shapes is generated; it takes no data.")
        return load_shapes(limit, folder, CALIBRATION_SEED if split else REPORT_SEED)
    if name != "own":
        raise DataError(f"There is no benchmark {name!r}; use one of {', '.join(BENCHMARKS)}.")
    if data is None:
        raise DataError("Questions of one's own need a file: give it as data.")
    return load_question_file(Path(data), limit, folder / "pictures")


def load_shapes(limit: int | None, folder: Path, seed: int = REPORT_SEED) -> Benchmark:
    """Draw the demo world as a benchmark: the same each time, nothing to download.

    Args:
        limit: How many questions, the kinds in turn; all 2,000 by default.
        folder: Where the images are drawn.
        seed: Decides everything; sets of different seeds share no image. By default the questions
            that the demo pair's published figures are measured on.
    """
    images = folder / "pictures" / str(seed)
    questions = [
        BenchmarkQuestion(
            id=f"{item.number:05}",
            question=item.question.text,
            images=(str(Path(item.image).resolve()),),
            answers=(item.answer,),
            choices=item.question.choices,
            answer_type=cast("AnswerType", item.question.answer_type),
            group={"kind": item.question.kind},
        )
        for item in held_out(images, COUNT if limit is None else limit, seed)
    ]
    return Benchmark(
        name="shapes",
        questions=tuple(questions),
        prompts="demo",
        metric="accuracy",
        source=f"the demo world, seed {seed}",
    )
