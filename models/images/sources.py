"""The bytes behind a reference to an image: a path, a file URL, a data URI or a web address."""

import asyncio
import base64
import binascii
import ipaddress
import os
import re
import socket
import stat
import urllib.parse
from pathlib import Path
from typing import Any

from ..event_loop import shared_loop
from .decoding import ImageError

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Larger files are refused."""

MAX_FETCH_BYTES = 32 * 1024 * 1024
"""Larger downloads are stopped and refused."""

FETCH_SECONDS = 20.0
"""Time limit of one download, as a whole: names, connections, redirects, headers and body."""

MAX_REDIRECTS = 10

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
_NAME_LENGTH = 120
_BARE_BASE64 = re.compile(r"(iVBORw0KGg|/9j/|R0lGOD|UklGR)[\w+/\s-]{60,}={0,2}\s*")
"""The beginnings of PNG, JPEG, GIF and WebP."""
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


class _NotFetchedError(Exception):
    """A download that was given up; the message is the reason."""


def read_reference(
    reference: str, *, allow_fetch: bool = False, image_root: str | Path | None = None
) -> bytes:
    """Read the bytes of an image.

    Args:
        reference: A path (`~` is expanded), a `file:` URL, a data URI, or an http(s) URL.
        allow_fetch: Whether http(s) URLs may be downloaded.
        image_root: Only files below this folder may be read; None for any.

    Raises:
        ImageError: Nothing there, not allowed, too large, or not a reference that is understood.
    """
    scheme = reference_scheme(reference)
    if scheme == "data":
        return decode_data_uri(reference)
    if scheme in {"http", "https"}:
        return _fetch(reference, allow_fetch)
    if _BARE_BASE64.fullmatch(reference):
        raise ImageError(
            f"{describe(reference[:40])} begins like an image in base64: write "
            "`data:image/png;base64,` before it."
        )
    path = local_path(reference)
    if image_root is None:
        return _read_file(path, describe(str(path)))
    try:
        real = path.resolve(strict=True)
        if real.is_relative_to(Path(image_root).expanduser().resolve()):
            return _read_file(real, describe(reference))
    except (ImageError, OSError, RuntimeError, ValueError):
        pass  # whether something is there is nothing to tell either
    raise ImageError(
        f"There is no image {describe(reference)} that may be read here; give one of the folder "
        "that is open for images, or send the image itself."
    )


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
    """Return a reference as error messages show it: quoted, cut, and without a URL's secrets."""
    text = re.sub(r"(?<=:/)/*[^/?#]*@", "/", reference[:4096])
    text = re.sub(r"\?.*", "?...", text, flags=re.DOTALL)
    return repr(text if len(text) <= _NAME_LENGTH else text[: _NAME_LENGTH - 3] + "...")


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


def _read_file(path: Path, name: str) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ImageError(f"{name} is a folder, not an image.")
        # Reading a pipe, a device or a file of the kernel's, which has no size, may never end.
        if not stat.S_ISREG(status.st_mode):
            raise ImageError(f"{name} is not a regular file.")
        if not status.st_size:
            raise ImageError(f"{name} is empty (0 bytes).")
        if status.st_size > MAX_FILE_BYTES:
            raise ImageError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB.")
        with path.open("rb") as file:
            return file.read(status.st_size)
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
        # In the loop of its own thread: this one may be running an event loop.
        return shared_loop().run(_download(url))
    except TimeoutError:
        reason = f"it took more than {FETCH_SECONDS:.0f} seconds"
    except _NotFetchedError as error:
        reason = str(error)
    except (httpx.InvalidURL, UnicodeError):
        reason = "its address is none"
    except (httpx.HTTPError, OSError, ValueError) as error:
        # What a service says is not shown to who may not reach it.
        reason = "there is no connection, or what answers speaks no HTTP"
        raise ImageError(f"{name} cannot be fetched ({reason}).") from error
    raise ImageError(f"{name} cannot be fetched ({reason}).")


async def _download(url: str) -> bytes:
    """Read a URL and what it redirects to, all within `FETCH_SECONDS`."""
    import httpx

    headers = {"User-Agent": "langgraph-mai", "Accept-Encoding": "identity"}
    data, target = bytearray(), httpx.URL(url)
    async with (
        asyncio.timeout(FETCH_SECONDS),
        httpx.AsyncClient(headers=headers, timeout=None) as client,
    ):
        for _ in range(MAX_REDIRECTS + 1):
            if target.scheme not in {"http", "https"}:
                raise _NotFetchedError(f"it redirects to the scheme {target.scheme[:20]!r}")
            pinned = target.copy_with(host=await _public_address(target))
            host = {"Host": target.netloc.decode("ascii")}
            server = {"sni_hostname": target.raw_host.decode("ascii")}
            async with client.stream("GET", pinned, headers=host, extensions=server) as response:
                if response.next_request:
                    target = target.join(response.headers["Location"])
                    continue
                if response.status_code != 200:
                    raise _NotFetchedError(
                        f"it was answered with HTTP status {response.status_code}"
                    )
                # Raw, although it was told to encode nothing: some bytes may become gigabytes.
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > MAX_FETCH_BYTES:
                        raise _NotFetchedError(f"it is larger than {MAX_FETCH_BYTES >> 20} MiB")
                return bytes(data)
    raise _NotFetchedError(f"it redirects more than {MAX_REDIRECTS} times")


async def _public_address(url: Any) -> str:
    """Return the address of a URL's host, which then is connected to, whatever its name means."""
    loop = asyncio.get_running_loop()
    try:
        host = url.raw_host.decode("ascii")
        found = await loop.getaddrinfo(host, url.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _NotFetchedError("its host is not known") from error
    addresses = [str(address[0]) for *_, address in found]
    if not all(map(is_public, addresses)):
        raise _NotFetchedError("its host is not on the public internet")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # Outside of these, and in tunnels, an address may hold one of IPv4.
        return ip in _GLOBAL_UNICAST and ip.is_global and not (ip.sixtofour or ip.teredo)
    return ip.is_global and not ip.is_multicast
