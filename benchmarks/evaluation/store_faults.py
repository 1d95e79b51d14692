"""What is wrong with the file of stored calls, in one sentence."""

import sqlite3
from pathlib import Path

from ...configs import ConfigError


class StoreError(ConfigError):
    """The stored calls cannot be read or written; nothing more is to be asked."""


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The error to raise instead of one of SQLite's.

    Args:
        error: What SQLite raised.
        path: The file.
    """
    folder = str(path.parent)
    kind = getattr(error, "sqlite_errorname", "").split("_")[1:2]
    match kind:
        case ["BUSY" | "LOCKED"]:
            text = (
                f"Another evaluation is running in {folder!r}; wait for it, or name another folder."
            )
        case ["FULL"]:
            text = (
                f"There is no room left for answers in {folder!r}; free space, and the same "
                "command goes on from there."
            )
        case ["READONLY" | "PERM" | "AUTH"]:
            text = (
                f"The answers in {folder!r} may only be read; make the folder and its files "
                "writable, or name another folder."
            )
        case ["CANTOPEN"]:
            text = (
                f"{str(path)!r} cannot be opened; make the folder and its files writable, or name "
                "another folder."
            )
        case ["IOERR"]:
            text = (
                f"{str(path)!r} cannot be read or written ({error}); free space or check the disk, "
                "and the same command goes on."
            )
        case _:
            text = f"{str(path)!r} is no store of model calls ({error}); name another folder."
    return StoreError(text)
