"""A folder that one process at a time writes its results into."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..configs import ConfigError
from ..configs.files import writing


@contextmanager
def holding(folder: Path, command: str) -> Iterator[None]:
    """Hold a folder, which is made if needed; a process that ends, however it does, lets go of it.

    The lock is SQLite's, as for stored model calls: it works on every system and on network drives.

    Args:
        folder: Where results are written.
        command: What writes them ("mai profile"); others may hold the folder at the same time.

    Raises:
        ConfigError: Another process holds it, or it cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{command.replace(' ', '-')}.lock"
    try:
        file = sqlite3.connect(path, timeout=1.0, isolation_level=None)
    except sqlite3.Error as error:
        raise _fault(error, folder, command) from error
    with closing(file):
        try:
            file.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            raise _fault(error, folder, command) from error
        yield


def _fault(error: sqlite3.Error, folder: Path, command: str) -> ConfigError:
    kind = getattr(error, "sqlite_errorname", "")
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return ConfigError(
            f"Another {command!r} is running in {str(folder)!r}; wait for it, or name another "
            "folder."
        )
    return ConfigError(
        f"{str(folder)!r} cannot be written ({error}); make it writable, or name another folder."
    )
