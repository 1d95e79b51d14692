"""The address of a server's API, checked before anything is sent there."""

from urllib.parse import urlsplit

EXAMPLE = "http://localhost:8101/v1"


def server_address(text: str) -> str:
    """Check an address and write it in the one form that it is compared in.

    Args:
        text: An http(s) URL of a host, perhaps with a port and a path.

    Returns:
        The address, without surrounding spaces and slashes at its end.

    Raises:
        ValueError: It is no such URL. The message starts with a verb and does not repeat the
            address, which may hold a secret.
    """
    text = text.strip()
    if any(not letter.isprintable() or letter.isspace() for letter in text):
        raise ValueError("must hold no spaces or control characters")
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError as error:  # brackets of an IPv6 address that do not match
        raise ValueError(f"must be an http(s) URL, such as {EXAMPLE}") from error
    if "@" in parts.netloc:
        raise ValueError("must hold no user or password; put the key into the environment")
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError(f"must be an http(s) URL, such as {EXAMPLE}")
    if "?" in text or "#" in text:
        raise ValueError("must end with its path: no query and no fragment after it")
    _check_host(host)
    _check_port(parts.netloc)
    return parts.geturl().rstrip("/")


def _check_host(host: str) -> None:
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError("must name a host that can exist; correct its name") from error


def _check_port(netloc: str) -> None:
    after_host = netloc.rpartition("]")[2].partition(":")
    port = after_host[2]
    digits = port.isascii() and port.isdigit() and len(port) < 6
    if after_host[1] and not (digits and 0 < int(port) < 65536):
        raise ValueError("must have a port from 1 to 65535 after the colon, or no colon")
