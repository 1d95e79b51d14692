"""The bytes behind a reference to a picture: a path, a file URL, a data URI or a web address."""

import base64
import binascii
import http.client
import os
import re
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from .decoding import ImageError
from .store import check_not_gone

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Larger files are refused."""

MAX_FETCH_BYTES = 32 * 1024 * 1024
"""Larger downloads are stopped and refused."""

FETCH_SECONDS = 20.0
"""Time limit of one download, as a whole."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(?!\\)", re.IGNORECASE)
_NAME_LENGTH = 120


def read_reference(reference: str, *, allow_fetch: bool) -> bytes:
    """Read the bytes of a picture.

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
    """The lower-case URL scheme of a reference, empty for a path.

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
        f"{shown(reference)} cannot be read: pictures come from a path, a file: or http(s) URL, "
        "or a data: URI."
    )


def shown(reference: str) -> str:
    """A reference as error messages show it: quoted, and cut if it is long."""
    text = reference if len(reference) <= _NAME_LENGTH else reference[: _NAME_LENGTH - 3] + "..."
    return repr(text)


def local_path(reference: str) -> Path:
    """The absolute path that a path or a `file:` URL means; percent escapes of URLs are undone.

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
                    f"{shown(reference)} names the machine {host!r}; a file URL on this machine "
                    "starts with file:/// (three slashes)."
                )
            text = slash + rest
        if re.match(r"/[a-zA-Z]:[/\\]", text):  # a Windows drive
            text = text[1:]
        text = os.path.normpath(text) if text else text
    if not text.strip():
        raise ImageError("The reference to a picture is empty; give a path or a URL.")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ImageError(f"The home folder in {shown(reference)} is not known.") from error


def decode_data_uri(uri: str) -> bytes:
    """The bytes of a data URI; the type it claims is ignored.

    Raises:
        ImageError: It has no data part, or the data is not valid.
    """
    header, comma, data = uri.partition(",")
    if not comma:
        raise ImageError(f"The data URI {shown(uri)} has no comma and so no data.")
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
    name = shown(str(path))
    try:
        status = path.stat()
        problem = _problem(status)
        data = b"" if problem else path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        check_not_gone(path)
        raise ImageError(f"There is no file {name}.") from error
    except PermissionError as error:
        raise ImageError(f"The file {name} may not be read by this user.") from error
    except (OSError, ValueError) as error:  # a name that is too long or holds a null byte
        reason = getattr(error, "strerror", None) or error
        raise ImageError(f"The file {name} cannot be read ({reason}).") from error
    if problem:
        raise ImageError(f"{name} is {problem}.")
    return data


def _problem(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "a folder, not a picture"
    if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
        return "not a regular file"
    if status.st_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES >> 20} MiB"
    return ""


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http(s) alone; urllib itself would also follow them to ftp."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in {"http", "https"}:
            raise urllib.error.URLError(f"redirected to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(url: str, allow_fetch: bool) -> bytes:
    if not allow_fetch:
        raise ImageError(
            f"{shown(url)} was not fetched because downloads are off; set allow_fetch=True "
            "(--allow-fetch), or download the picture and give its path."
        )
    try:
        return _download(url)
    except urllib.error.HTTPError as error:
        error.close()
        raise ImageError(f"{shown(url)} was answered with HTTP status {error.code}.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            reason = f"it took more than {FETCH_SECONDS:.0f} seconds"
        else:
            reason = " ".join(str(cause).split()) or type(cause).__name__
        raise ImageError(f"{shown(url)} cannot be fetched ({reason}).") from error


def _download(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "langgraph-mai"})
    opener = urllib.request.build_opener(_WebOnly)
    deadline = time.monotonic() + FETCH_SECONDS
    data = bytearray()
    with opener.open(request, timeout=FETCH_SECONDS) as response:
        while part := response.read1(1 << 16):
            data += part
            if len(data) > MAX_FETCH_BYTES:
                raise OSError(f"it is larger than {MAX_FETCH_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise TimeoutError
    return bytes(data)
