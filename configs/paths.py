"""Files and folders that people name: `~` is expanded; what cannot be a name is not there."""

from collections.abc import Callable
from pathlib import Path


def existing_file(name: str | Path) -> Path | None:
    """The file of this name; None if there is none, or no such home folder or name can be."""
    return _existing(name, Path.is_file)


def existing_folder(name: str | Path) -> Path | None:
    """The folder of this name; None if there is none, or no such home folder or name can be."""
    return _existing(name, Path.is_dir)


def _existing(name: str | Path, is_there: Callable[[Path], bool]) -> Path | None:
    try:
        path = Path(name).expanduser()
        return path if is_there(path) else None
    except (OSError, RuntimeError, ValueError):  # too long, ~ of nobody, a null byte, a surrogate
        return None
