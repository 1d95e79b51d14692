"""Pictures that a benchmark has on the web, fetched once into a folder."""

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ...configs.files import write_whole
from ...models.images import ImageError
from ...models.images.sources import read_reference
from ..question import Benchmark, BenchmarkQuestion
from .errors import fault_list

_AT_A_TIME = 8
_WEB = ("http://", "https://")


def with_fetched_pictures(benchmark: Benchmark, folder: Path) -> Benchmark:
    """The same benchmark with files in the place of web addresses.

    What was fetched stays: later evaluations see the same pictures, and need no network.

    Args:
        benchmark: Its questions' images may be http(s) addresses.
        folder: Where the pictures are put, below `web`.

    Raises:
        DataError: Some cannot be fetched; names them and their questions. The others are kept.
        ConfigError: The folder cannot be written.
    """
    asked_by = {
        image: question.id
        for question in reversed(benchmark.questions)
        for image in question.images
        if image.lower().startswith(_WEB)
    }
    if not asked_by:
        return benchmark
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        found = threads.map(lambda address: _fetched(address, folder / "web"), asked_by)
    files: dict[str, str] = {}
    faults = []
    for (address, question_id), file in zip(asked_by.items(), found, strict=True):
        if isinstance(file, ImageError):
            faults.append(f"question {question_id}: {file}")
        else:
            files[address] = str(file)
    if faults:
        raise fault_list(f"Pictures of {benchmark.name} are not to be had", faults[::-1])
    questions = tuple(_with_files(question, files) for question in benchmark.questions)
    return replace(benchmark, questions=questions)


def _with_files(question: BenchmarkQuestion, files: Mapping[str, str]) -> BenchmarkQuestion:
    return replace(question, images=tuple(files.get(image, image) for image in question.images))


def _fetched(address: str, folder: Path) -> Path | ImageError:
    file = (folder / hashlib.sha256(address.encode()).hexdigest()[:32]).resolve()
    if not file.is_file():
        try:
            write_whole(file, read_reference(address, allow_fetch=True))
        except ImageError as error:
            return error
    return file
