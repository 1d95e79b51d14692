"""Pictures of data sets as references that `models.images` takes."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...configs.files import write_whole
from .errors import DataError, NoPictureError

_SUBFOLDERS = ("", "images", "png", "val2014")
"""Where the public sets keep the pictures that their files name."""
_SUFFIX = re.compile(r"\.\w{2,5}")


def picture_reference(cell: Any, base: Path, folder: Path) -> str:
    """The path of a picture that a row holds or names.

    The picture is not opened: one that is broken fails when it is asked about, and it alone.

    Args:
        cell: `{"bytes": ..., "path": ...}`, or a path.
        base: What a path is relative to; subfolders that the public sets use are looked at too.
        folder: Where bytes are written, once for equal bytes.

    Raises:
        DataError: No picture.
        NoPictureError: No such file.
        ConfigError: The folder cannot be written.
    """
    data, name = (
        (cell.get("bytes"), cell.get("path")) if isinstance(cell, Mapping) else (None, cell)
    )
    if data:
        return str(_written(bytes(data), Path(name or "").suffix.lower(), folder))
    if not isinstance(name, str) or not name:
        raise DataError("there is no picture.")
    for subfolder in _SUBFOLDERS:
        path = base / subfolder / name
        if path.is_file():
            return str(path.resolve())
    below = ", ".join(f"{subfolder}/" for subfolder in _SUBFOLDERS if subfolder)
    raise NoPictureError(f"there is no picture {name} in {base}, nor below it in {below}.")


def _written(data: bytes, suffix: str, folder: Path) -> Path:
    suffix = suffix if _SUFFIX.fullmatch(suffix) else ""
    path = folder / f"{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
    if not (path.is_file() and path.stat().st_size == len(data)):
        write_whole(path, data)
    return path.resolve()
