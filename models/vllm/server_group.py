"""The servers of a pair: started one after the other, watched, and ended together."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import ModelError
from .ports import check_port
from .server_process import ServerProcess, ServerSpec

_SECONDS_BETWEEN_LOOKS = 0.25


class ServerGroup:
    """Servers that run only as long as all of them do.

    They start one after the other, because each measures the free memory before it takes its share.
    """

    def __init__(self, log_folder: Path, environ: Mapping[str, str]) -> None:
        """A group without servers.

        Args:
            log_folder: Existing folder for the servers' logs, `ROLE.log`.
            environ: Environment variables that the servers start from.
        """
        self._log_folder = log_folder
        self._environ = environ
        self._servers: dict[str, ServerProcess] = {}

    def start(
        self, role: str, spec: ServerSpec, timeout: float, on_wait: Callable[[str], bool]
    ) -> bool:
        """Start a server and wait until it can answer.

        Args:
            role: The role of its model in the pair.
            spec: What it serves, and where.
            timeout: Seconds to wait at most.
            on_wait: Called several times a second with the last message of its log; the waiting
                ends when it returns False.

        Returns:
            Whether it can answer; False if `on_wait` ended the waiting.

        Raises:
            ModelError: It, or one that was started before, ended; it took too long; or its port
                has been taken meanwhile.
        """
        check_port(spec.host, spec.port)
        log = self._log_folder / f"{role}.log"
        try:
            server = ServerProcess(spec, log, self._environ)
        except OSError as error:
            raise ModelError(f"The server of {spec.name!r} cannot be started: {error}.") from error
        self._servers[role] = server

        def goes_on(message: str) -> bool:
            self.check(but=role)
            return on_wait(message)

        try:
            return server.wait_until_healthy(timeout, goes_on)
        except ServerEndedError:
            raise
        except ModelError as error:
            raise ModelError(f"{error} (Log: {log})") from error

    def check(self, *, but: str = "") -> None:
        """Raise an error if a server has ended.

        Args:
            but: The role of a server that is not looked at.

        Raises:
            ServerEndedError: One has ended.
        """
        for role, server in self._servers.items():
            if role != but and not server.runs:
                raise ServerEndedError(role, server)

    def end(self, *, patient: Callable[[], bool]) -> None:
        """End all servers, with all of their processes.

        Args:
            patient: Whether to go on waiting for an orderly end.
        """
        for server in self._servers.values():
            server.terminate()
        for server in self._servers.values():
            server.end(patient=patient)

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Wait until `stopped` returns True.

        Raises:
            ServerEndedError: A server has ended before.
        """
        while not stopped():
            self.check()
            time.sleep(_SECONDS_BETWEEN_LOOKS)


class ServerEndedError(ModelError):
    """A server ended that nobody had asked to.

    Attributes:
        last_lines: The last lines of its log.
    """

    def __init__(self, role: str, server: ServerProcess) -> None:
        """Say why, as far as its log tells."""
        super().__init__(f"The {role} model's server ended: {server.reason()} (Log: {server.log})")
        self.last_lines = server.last_lines(10)
