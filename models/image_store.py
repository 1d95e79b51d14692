"""Where pictures without a path of their own are kept: one file per content, in a cache folder."""

import hashlib
import os
import re
import tempfile
from pathlib import Path

CACHE_VARIABLE = "LANGGRAPH_MAI_CACHE"


def store_image(data: bytes, mime_type: str) -> Path:
    """Store encoded bytes once, under their SHA-256.

    Pictures go to the folder `images` below `$LANGGRAPH_MAI_CACHE`, or below
    `~/.cache/langgraph-mai`; if that cannot be written, below the system's temporary folder.

    Args:
        data: The bytes of an image file.
        mime_type: Gives the file its ending.

    Returns:
        The absolute path.

    Raises:
        OSError: None of the folders can be written.
    """
    ending = mime_type.removeprefix("image/").split("+")[0]
    name = f"{hashlib.sha256(data).hexdigest()}.{ending}"
    try:
        return _write_once(_cache_folder() / name, data)
    except OSError:
        return _write_once(_temporary_folder() / name, data)


def read_stored(name: str) -> bytes | None:
    """The bytes that `store_image` wrote to a file of this name; None if they are gone.

    Args:
        name: The file's name without its folder; anything else is not looked for.
    """
    if not re.fullmatch(r"[0-9a-f]{64}\.\w+", name):
        return None
    for folder in (_cache_folder(), _temporary_folder()):
        try:
            return (folder / name).read_bytes()
        except OSError:
            continue
    return None


def _cache_folder() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(chosen).expanduser() if chosen else Path("~/.cache/langgraph-mai").expanduser()
    return base.absolute() / "images"


def _temporary_folder() -> Path:
    # The user's id keeps the users of a shared machine apart.
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()).absolute() / f"langgraph-mai-{user}" / "images"


def _write_once(path: Path, data: bytes) -> Path:
    """Write through a temporary file, so that no reader ever sees half a picture."""
    if path.is_file() and path.stat().st_size == len(data):
        return path
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
