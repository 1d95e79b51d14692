"""Files of results that are written whole or not at all, and folders that can hold them."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .config import ConfigError

_PROBE = bytes(4096)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file, in a folder that is made if needed.

    Whoever is killed meanwhile, or runs out of disk, leaves the file as it was before; none ever
    sees half of it.

    Args:
        path: The file.
        content: Bytes, or a text that is written as UTF-8.

    Raises:
        ConfigError: It cannot be written; says why.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content.encode() if isinstance(content, str) else content)
            part.replace(path)
        except OSError:
            with suppress(OSError):  # what was wrong above may be wrong here too
                part.unlink(missing_ok=True)
            raise


def check_folder(folder: Path) -> None:
    """See that files can be written into a folder, or that it can be made; leave nothing there.

    Raises:
        ConfigError: They cannot, or it cannot; says why.
    """
    with writing(folder):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise NotADirectoryError(0, f"{there} is a file")
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(_PROBE)
            probe.flush()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say of what fails inside that a file or folder cannot be written, and why.

    Raises:
        ConfigError: Something failed.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written ({error.strerror or error}); free space there, make "
            "it writable, or name another folder."
        ) from error
