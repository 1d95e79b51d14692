"""Where the results of a command go."""

from pathlib import Path

from ..configs.files import check_folder
from .errors import UsageError


def results_folder(name: str | Path) -> Path:
    """The folder for results; it can be written.

    Raises:
        UsageError: The home folder in it is not known.
        ConfigError: It cannot be written.
    """
    try:
        folder = Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"The home folder in {str(name)!r} is not known; name another --out."
        ) from error
    check_folder(folder)
    return folder
