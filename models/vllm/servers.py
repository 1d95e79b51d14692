"""vLLM servers as child processes, for `mai serve`: started one after the other, watched, ended."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from ..errors import ModelError
from .engine_args import EngineSpec, last_line, watched, with_log

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_TO_END = 30.0

_PLAIN_SAMPLING = {
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}

# vLLM's switches that can only be put on.
_ONLY_ON = {
    "disable_log_stats",
    "aggregate_engine_logging",
    "data_parallel_multi_port_external_lb",
}


class PortError(ModelError):
    """A host and port on which no server can listen; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What one server serves, and where.

    Attributes:
        name: Name by which clients request it.
        engine: The model and how its engine is started.
        host: Address to listen on; `0.0.0.0` for all.
        port: Port to listen on.
        gpu: Number of the GPU among the visible ones; None for vLLM's choice.
        api_key: Key that clients must send; None for no key. It goes to the server by its
            environment, where neither a list of processes nor a log shows it.
    """

    name: str
    engine: EngineSpec
    host: str
    port: int
    gpu: int | None = None
    api_key: str | None = field(default=None, repr=False)

    def command(self) -> list[str]:
        """Return the server's command line."""
        settings = self.engine.arguments()
        model = settings.pop("model")
        overridden = settings.get("override_generation_config") or {}
        # People read a server's statistics at /metrics.
        settings["disable_log_stats"] = json.loads(self.engine.options).get("disable_log_stats")
        settings |= {
            # Models answer alike on every backend: without the sampling that a checkpoint brings.
            "override_generation_config": _PLAIN_SAMPLING | overridden,
            "served_model_name": self.name,
            "enable_prompt_tokens_details": True,
            "host": self.host,
            "port": self.port,
        }
        return [*_entry_point(model), *_flags(settings)]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the server's environment, from the one that this command was started with.

        Raises:
            ModelError: There is no such GPU.
        """
        found = watched(environ)
        found.pop("VLLM_API_KEY", None)  # it may be there for another server
        if self.api_key is not None:
            found["VLLM_API_KEY"] = self.api_key
        if self.gpu is not None:
            visible = environ.get("CUDA_VISIBLE_DEVICES")
            # Without a list, all are visible, by their numbers.
            gpus = [str(self.gpu)] * (self.gpu + 1) if visible is None else visible.split(",")
            if self.gpu >= len(gpus):
                raise ModelError(
                    f"There is no device cuda:{self.gpu} for {self.name!r}: CUDA_VISIBLE_DEVICES "
                    f"shows {len(gpus)} GPU(s) to this command."
                )
            found["CUDA_VISIBLE_DEVICES"] = gpus[self.gpu].strip()
        return found

    def answers(self) -> bool:
        """Whether a server on its port takes its key and serves its model."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1/models"
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        try:
            # No proxy of the environment's lies between a process and its child.
            reply = httpx.get(address, headers=headers, timeout=5, trust_env=False, verify=False)
            return any(one["id"] == self.name for one in reply.raise_for_status().json()["data"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError):  # no reply of such a server
            return False


class _Server(NamedTuple):
    spec: ServerSpec
    process: "subprocess.Popen[bytes]"
    log: Path


class ServerGroup:
    """Servers that run only as long as all of them do, each in a process group of its own.

    They start one after the other, because each measures the free memory before it takes its share.
    """

    def __init__(self, log_folder: Path, environ: Mapping[str, str]) -> None:
        """Make a group without servers; those to come log to `ROLE.log` in a folder that exists."""
        self._log_folder = log_folder
        self._environ = environ
        self._servers: dict[str, _Server] = {}

    def start(
        self, role: str, spec: ServerSpec, timeout: float, on_wait: Callable[[str], bool]
    ) -> bool:
        """Start a server and wait until it can answer.

        Args:
            role: The role of its model in the pair.
            spec: What it serves, and where.
            timeout: Seconds to wait at most.
            on_wait: Called several times a second with the last line of its log; the waiting ends
                when it returns False.

        Returns:
            Whether it can answer; False if `on_wait` ended the waiting.

        Raises:
            ModelError: It, or one that was started before, ended; it took too long; or its port
                has been taken meanwhile.
        """
        check_port(spec.host, spec.port)
        log = self._log_folder / f"{role}.log"
        command, environment = spec.command(), spec.environment(self._environ)
        try:
            with log.open("wb") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    # Ctrl-C in a terminal goes to a whole group; who started the server ends it.
                    start_new_session=True,
                )
        except OSError as error:
            raise ModelError(f"The server of {spec.name!r} cannot be started: {error}.") from error
        self._servers[role] = _Server(spec, process, log)
        end = time.monotonic() + timeout
        while on_wait(last_line(log)):
            ready = spec.answers()
            self.check()  # what answers may be another server, and ours gone by now
            if ready:
                return True
            if time.monotonic() > end:
                raise ModelError(
                    f"The server of {spec.name!r} was not ready after {timeout:g} seconds; "
                    "give it more time (--timeout), or see its log."
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return False

    def check(self) -> None:
        """Raise `ModelError` if a server has ended; a note shows the last lines of its log."""
        for role, (spec, process, log) in self._servers.items():
            if (code := process.poll()) is None:
                continue
            how = f"with exit code {code}; the reason is in the last lines of its log"
            if code == -signal.SIGKILL:
                how = "because it was killed from outside, by hand or as main memory ran out"
            sentence = f"The {role} model's server ({spec.name!r}) ended {how}."
            raise with_log(ModelError(sentence), log)

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Wait until `stopped` returns True; raise `ModelError` if a server ends before."""
        while not stopped():
            self.check()
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def end(self, *, patient: Callable[[], bool]) -> None:
        """End all servers and their processes, by force once `patient` returns False."""
        processes = [server.process for server in self._servers.values()]
        for process in processes:
            process.terminate()
        end = time.monotonic() + _SECONDS_TO_END
        for process in processes:
            while process.poll() is None and patient() and time.monotonic() < end:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            # What the main process left behind is in its group still.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def check_port(host: str, port: int) -> None:
    """Check that a port is free, by listening on it for a moment (an empty host: on all).

    vLLM shares its ports, so two servers of one user can have the same and get half of the calls
    each, without an error.

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


def _entry_point(model: str) -> list[str]:
    """Return Python and the module that serves a model.

    vLLM's own command wants to know its version, from metadata that a repackaged vLLM lacks.
    """
    # -P: what lies in the working folder must not replace an installed package.
    python = [sys.executable, "-P", "-m"]
    try:
        metadata.version("vllm")
    except metadata.PackageNotFoundError:
        return [*python, "vllm.entrypoints.openai.api_server", "--model", model]
    return [*python, "vllm.entrypoints.cli.main", "serve", model]


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Return settings by vLLM's Python names as flags; None is left to vLLM."""
    flags: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if value is True:
            flags.append(f"--{flag}")
        elif value is False:
            flags += [] if name in _ONLY_ON else [f"--no-{flag}"]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            flags += [f"--{flag}", *(str(item) for item in value)]
        elif value is not None:
            text = json.dumps(value) if isinstance(value, Mapping) else str(value)
            # With "=", because a value may begin with a dash.
            flags.append(f"--{flag}={text}")
    return flags
