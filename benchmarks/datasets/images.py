"""Images of data sets as files: from bytes in a row, from the paths it names, from the web."""

import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...configs.files import write_whole
from ...models.images import ImageError
from ...models.images.sources import read_reference
from ..question import Benchmark
from .rows import DataError, DataListError

_SUBFOLDERS = ("", "images", "png", "val2014")
"""Where the public sets keep the images that their files name."""

_SUFFIX = re.compile(r"\.\w{2,5}")
_DOWNLOADS = 8
_WEB = ("http://", "https://")


def image_file(cell: Any, base: Path, folder: Path) -> str:
    """Return the path of an image that a row holds or names.

    The image is not opened: one that is broken fails when a question about it is run, and it alone.

    Args:
        cell: `{"bytes": ..., "path": ...}`, or a path.
        base: What a path is relative to; subfolders that the public sets use are searched too.
        folder: Where bytes are written, once for equal bytes.

    Raises:
        DataError: No image, or no such file.
        ConfigError: The folder cannot be written.
    """
    data, name = (
        (cell.get("bytes"), cell.get("path")) if isinstance(cell, Mapping) else (None, cell)
    )
    if data:
        return str(_written(bytes(data), Path(name or "").suffix.lower(), folder))
    if not isinstance(name, str) or not name:
        raise DataError("there is no image.")
    for subfolder in _SUBFOLDERS:
        path = base / subfolder / name
        if path.is_file():
            return str(path.resolve())
    below = ", ".join(f"{subfolder}/" for subfolder in _SUBFOLDERS if subfolder)
    raise DataError(f"there is no image {name} in {base}, nor below it in {below}.")


def fetch_images(benchmark: Benchmark, folder: Path) -> Benchmark:
    """Return the same benchmark with files in the place of web addresses.

    What was fetched stays: later evaluations see the same images, and need no network.

    Args:
        benchmark: Its questions' images may be http(s) addresses.
        folder: Where the images are put, below `web`.

    Raises:
        DataError: Some cannot be fetched; names them and their questions. The others are kept.
        ConfigError: The folder cannot be written.
    """
    first_question = {
        image: question.id
        for question in reversed(benchmark.questions)
        for image in question.images
        if image.lower().startswith(_WEB)
    }
    if not first_question:
        return benchmark
    with ThreadPoolExecutor(_DOWNLOADS) as threads:
        found = threads.map(lambda address: _fetched(address, folder / "web"), first_question)
    files = dict(zip(first_question, found, strict=True))
    errors = [
        f"question {first_question[address]}: {error}"
        for address, error in files.items()
        if isinstance(error, ImageError)
    ]
    if errors:
        raise DataListError.of(f"Images of {benchmark.name} cannot be had", errors[::-1])
    questions = tuple(
        replace(question, images=tuple(str(files.get(one, one)) for one in question.images))
        for question in benchmark.questions
    )
    return replace(benchmark, questions=questions)


def _written(data: bytes, suffix: str, folder: Path) -> Path:
    suffix = suffix if _SUFFIX.fullmatch(suffix) else ""
    path = folder / f"{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
    if not (path.is_file() and path.stat().st_size == len(data)):
        write_whole(path, data)
    return path.resolve()


def _fetched(address: str, folder: Path) -> Path | ImageError:
    file = (folder / hashlib.sha256(address.encode()).hexdigest()[:32]).resolve()
    if not file.is_file():
        try:
            write_whole(file, read_reference(address, allow_fetch=True))
        except ImageError as error:
            return error
    return file
