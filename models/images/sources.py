"""The bytes behind a reference to an image: a path, a file URL, a data URI or a web address."""

import asyncio
import base64
import binascii
import os
import re
import stat
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .decoding import ImageError

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Larger files are refused."""

MAX_FETCH_BYTES = 32 * 1024 * 1024
"""Larger downloads are stopped and refused."""

FETCH_SECONDS = 20.0
"""Time limit of one download, as a whole: name, connections, redirects and body."""

MAX_REDIRECTS = 10

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(?!\\)", re.IGNORECASE)
_NAME_LENGTH = 120


def read_reference(reference: str, *, allow_fetch: bool) -> bytes:
    """Read the bytes of an image.

    Args:
        reference: A path (`~` is expanded), a `file:` URL, a data URI, or an http(s) URL.
        allow_fetch: Whether http(s) URLs may be downloaded.

    Raises:
        ImageError: Nothing there, not allowed, too large, or not a reference that is understood.
    """
    scheme = reference_scheme(reference)
    if scheme == "data":
        return decode_data_uri(reference)
    if scheme in {"http", "https"}:
        return _fetch(reference, allow_fetch)
    return _read_file(local_path(reference))


def reference_scheme(reference: str) -> str:
    """Return the lower-case URL scheme of a reference, empty for a path.

    Raises:
        ImageError: A scheme other than file, data, http and https.
    """
    match = _SCHEME.match(reference)
    scheme = match[1].lower() if match else ""
    if scheme in {"", "file", "data", "http", "https"}:
        return scheme
    if "://" not in reference:  # a file name with a colon in it
        return ""
    raise ImageError(
        f"{describe(reference)} cannot be read: images come from a path, a file: or http(s) URL, "
        "or a data: URI."
    )


def describe(reference: str) -> str:
    """Return a reference as error messages show it: quoted, and cut if it is long."""
    text = reference if len(reference) <= _NAME_LENGTH else reference[: _NAME_LENGTH - 3] + "..."
    return repr(text)


def local_path(reference: str) -> Path:
    """Return the absolute path that a path or a `file:` URL means; URLs' escapes are undone.

    Raises:
        ImageError: The URL names another machine, or no path at all.
    """
    text = reference
    if reference_scheme(reference) == "file":
        text = urllib.parse.unquote(reference[len("file:") :])
        if text.startswith("//"):
            host, slash, rest = text[2:].partition("/")
            if host.lower() not in {"", "localhost"}:
                raise ImageError(
                    f"{describe(reference)} names the machine {host!r}; a file URL on this machine "
                    "starts with file:/// (three slashes)."
                )
            text = slash + rest
        if re.match(r"/[a-zA-Z]:[/\\]", text):  # a Windows drive
            text = text[1:]
        text = os.path.normpath(text) if text else text
    if not text.strip():
        raise ImageError("The reference to an image is empty; give a path or a URL.")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ImageError(f"The home folder in {describe(reference)} is not known.") from error


def decode_data_uri(uri: str) -> bytes:
    """Return the bytes of a data URI; the type it claims is ignored.

    Raises:
        ImageError: It has no data part, or the data is not valid.
    """
    header, comma, data = uri.partition(",")
    if not comma:
        raise ImageError(f"The data URI {describe(uri)} has no comma and so no data.")
    if header.lower().rstrip().endswith(";base64"):
        return decode_base64(urllib.parse.unquote(data), "The data URI")
    return urllib.parse.unquote_to_bytes(data)


def decode_base64(text: str, name: str) -> bytes:
    """Decode base64 in the plain or the URL alphabet; line breaks and missing padding are fine.

    Raises:
        ImageError: Other characters, or a length that no bytes have.
    """
    compact = "".join(text.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"{name} does not hold valid base64; it may have been cut off.") from error


def _read_file(path: Path) -> bytes:
    name = describe(str(path))
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ImageError(f"{name} is a folder, not an image.")
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
            raise ImageError(f"{name} is not a regular file.")
        if status.st_size > MAX_FILE_BYTES:
            raise ImageError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB.")
        return path.read_bytes()
    except ImageError:  # a ValueError, too
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ImageError(f"There is no file {name}.") from error
    except PermissionError as error:
        raise ImageError(f"The file {name} may not be read by this user.") from error
    except (OSError, ValueError) as error:  # a name that is too long or holds a null byte
        reason = getattr(error, "strerror", None) or error
        raise ImageError(f"The file {name} cannot be read ({reason}).") from error


def _fetch(url: str, allow_fetch: bool) -> bytes:
    name = describe(url)
    if not allow_fetch:
        raise ImageError(
            f"{name} was not fetched because downloads are off; set allow_fetch=True "
            "(--allow-fetch), or download the image and give its path."
        )
    import httpx

    try:
        # In a thread of its own: this one may be running an event loop.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _download(url)).result()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise ImageError(f"{name} was answered with HTTP status {status}.") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, TimeoutError):
            reason = f"it took more than {FETCH_SECONDS:.0f} seconds"
        raise ImageError(f"{name} cannot be fetched ({reason}).") from error


async def _download(url: str) -> bytes:
    """Read a URL and what it redirects to, all within `FETCH_SECONDS`."""
    import httpx

    headers = {"User-Agent": "langgraph-mai", "Accept-Encoding": "identity"}
    data = bytearray()
    async with (
        asyncio.timeout(FETCH_SECONDS),
        httpx.AsyncClient(headers=headers, timeout=None) as client,
    ):
        for _ in range(MAX_REDIRECTS + 1):
            async with client.stream("GET", url) as response:
                if response.next_request:
                    url = str(response.next_request.url)
                    if response.next_request.url.scheme not in {"http", "https"}:
                        raise OSError(f"redirected to {url}")
                    continue
                response.raise_for_status()
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_FETCH_BYTES:
                        raise OSError(f"it is larger than {MAX_FETCH_BYTES >> 20} MiB")
                return bytes(data)
    raise OSError(f"it redirects more than {MAX_REDIRECTS} times")
