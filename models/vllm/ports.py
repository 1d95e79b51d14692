"""Whether a server can listen on a port."""

import socket

from ..errors import ModelError


class PortError(ModelError):
    """A host and port on which no server can listen; the message says why."""


def check_port(host: str, port: int) -> None:
    """Check that a port is free, by listening on it for a moment.

    vLLM shares its ports, so two servers of one user can have the same and get half of the calls
    each, without an error.

    Args:
        host: Address to listen on; an empty one for all.
        port: The port.

    Raises:
        PortError: There is no such address, or the port is in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise PortError(f"There is no address {host!r} and port {port} ({error}).") from error
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise PortError(
                f"The servers cannot listen on {host!r}, port {port} ({error.strerror}); end "
                "the program that uses it, or choose another --port or --host."
            ) from error
