"""Where pictures without a path of their own are kept: one file per content, in a cache folder."""

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from pathlib import Path

from .decoding import ImageError, image_ending

CACHE_VARIABLE = "LANGGRAPH_MAI_CACHE"

_NAME = re.compile(r"[0-9a-f]{64}\.\w+")


def store_image(data: bytes) -> Path:
    """Store encoded bytes once, under their SHA-256; the file's ending is that of their format.

    Pictures go to the folder `images` below `$LANGGRAPH_MAI_CACHE`, or below
    `~/.cache/langgraph-mai`; if that cannot be written, or this user has no home folder, below the
    system's temporary folder.

    Args:
        data: The bytes of an image file. Nothing that comes with a picture names the file: a type
            that a message claims could hold a path.

    Returns:
        The absolute path.

    Raises:
        ImageError: None of the folders can be written, or the chosen one is below the home folder
            of a user that there is not.
    """
    name = f"{hashlib.sha256(data).hexdigest()}.{image_ending(data)}"
    for folder in _folders():
        try:
            return _write_once(folder / name, data)
        except OSError as error:
            reason = error.strerror or str(error)
    raise ImageError(
        f"A picture cannot be stored in {folder} ({reason}); set {CACHE_VARIABLE} to a folder that "
        "can be written."
    )


def read_stored(name: str) -> bytes | None:
    """The bytes that `store_image` wrote to a file of this name; None if they cannot be read.

    Args:
        name: The file's name without its folder; anything else is not looked for.

    Raises:
        ImageError: The chosen folder is below the home folder of a user that there is not.
    """
    if not _NAME.fullmatch(name):
        return None
    for folder in _folders():
        try:
            return (folder / name).read_bytes()
        except OSError:
            continue
    return None


def seal(text: str) -> list[str]:
    """Seals of a text: nobody who cannot read the cache folder can make one.

    Returns:
        One for every folder in which pictures can be, the preferred one first; none if no folder
        can be written.

    Raises:
        ImageError: The chosen folder is below the home folder of a user that there is not.
    """
    seals = []
    for folder in _folders():
        try:
            key = _key(folder.parent / "key")
        except OSError:
            continue
        seals.append(hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest())
    return seals


def check_not_gone(path: Path) -> None:
    """Say that a file which is not there was a stored picture, if it was one.

    Raises:
        ImageError: It was.
    """
    if _NAME.fullmatch(path.name) and path.parent in _folders():
        raise ImageError(
            f"The stored picture {path.name!r} is gone: the folder {path.parent} was emptied "
            "since; give the picture again."
        )


def _folders() -> list[Path]:
    """Where pictures may be, in the order of preference."""
    # The user's id keeps the users of a shared machine apart.
    user = os.getuid() if hasattr(os, "getuid") else "user"
    temporary = Path(tempfile.gettempdir()) / f"langgraph-mai-{user}"
    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        bases = [Path(chosen or "~/.cache/langgraph-mai").expanduser(), temporary]
    except RuntimeError as error:  # this user has no home folder, or there is no such user
        if chosen and not re.match(r"~(/|$)", chosen):
            raise ImageError(
                f"{CACHE_VARIABLE} is {chosen!r}, but there is no such user's home folder; set it "
                "to another folder."
            ) from error
        bases = [temporary]
    return [base.absolute() / "images" for base in bases]


def _key(path: Path) -> bytes:
    """The secret of a cache folder, made when it is first needed."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(32))
        with contextlib.suppress(FileExistsError):  # Another process was first.
            os.link(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path.read_bytes()


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
