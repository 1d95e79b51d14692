"""One vLLM server as a child process: from its command line to its end."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from ..errors import ModelError
from .log_lines import last_message
from .options import EngineSpec
from .orphans import watched
from .start_errors import explain_start

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_TO_END = 30.0
_LONGEST_TAIL = 1 << 18

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


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What one server serves, and where.

    Attributes:
        name: Name that clients ask for.
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
        """The server's command line, without secrets.

        Raises:
            ModelError: The engine options hold a secret.
        """
        settings = self.engine.arguments()
        if settings.pop("hf_token", None):
            raise ModelError(
                f"The engine options of {self.name!r} hold hf_token, which everyone could read in "
                "the list of processes; set HF_TOKEN in the environment instead."
            )
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
        """The server's environment, from the one that this command was started with.

        Raises:
            ModelError: There is no such GPU.
        """
        found = {**environ, **watched(environ)}
        found.pop("VLLM_API_KEY", None)  # it may be there for another server
        if self.api_key is not None:
            found["VLLM_API_KEY"] = self.api_key
        if self.gpu is not None:
            found["CUDA_VISIBLE_DEVICES"] = self._visible_gpu(environ)
        return found

    def _visible_gpu(self, environ: Mapping[str, str]) -> str:
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return str(self.gpu)
        gpus = [gpu.strip() for gpu in visible.split(",") if gpu.strip()]
        if self.gpu is None or self.gpu >= len(gpus):
            raise ModelError(
                f"There is no device cuda:{self.gpu} for {self.name!r}: CUDA_VISIBLE_DEVICES "
                f"shows {len(gpus)} GPU(s) to this command."
            )
        return gpus[self.gpu]


class ServerProcess:
    """A server that runs, in a process group of its own."""

    def __init__(self, spec: ServerSpec, log: Path, environ: Mapping[str, str]) -> None:
        """Start it; returns at once.

        Args:
            spec: What it serves, and where.
            log: File that takes all that it writes.
            environ: Environment variables to start from.
        """
        self.spec = spec
        self.log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                spec.command(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=spec.environment(environ),
                # Ctrl-C in a terminal goes to a whole group; who started the server ends it.
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        """Whether its main process runs."""
        return self._process.poll() is None

    def wait_until_healthy(self, timeout: float, on_wait: Callable[[str], bool]) -> bool:
        """Wait until it can answer.

        Args:
            timeout: Seconds to wait at most.
            on_wait: Called several times a second with the last message of the log; the waiting
                ends when it returns False.

        Returns:
            Whether it can answer; False if `on_wait` ended the waiting.

        Raises:
            ModelError: It ended, or took longer.
        """
        end = time.monotonic() + timeout
        while on_wait(last_message(self.last_lines(20))):
            if not self.runs:
                raise ModelError(self.reason())
            # Looked at once more: what answers may be another server, and ours gone by now.
            if self._answers() and self.runs:
                return True
            if time.monotonic() > end:
                raise ModelError(
                    f"The server of {self.spec.name!r} was not ready after {timeout:g} seconds; "
                    "give it more time (--timeout), or see its log."
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return False

    def reason(self) -> str:
        """Why it ended, in one sentence."""
        code = self._process.poll()
        return explain_start([*self.last_lines(1000), f"exit code: {code}"], self.spec.name)

    def last_lines(self, count: int) -> list[str]:
        """The last lines of its log."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LONGEST_TAIL))
            return file.read().decode(errors="replace").splitlines()[-count:]

    def terminate(self) -> None:
        """Ask it to end; returns at once."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def end(self, *, patient: Callable[[], bool] = lambda: True) -> None:
        """End it and all of its processes, if need be by force.

        Args:
            patient: Whether to go on waiting for an orderly end.
        """
        self.terminate()
        end = time.monotonic() + _SECONDS_TO_END
        while self.runs and patient() and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        # What the main process left behind is in its group still.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        """Whether a server on its port is well, takes its key and serves its model."""
        if self._get("/health") is None:
            return False
        try:
            models = json.loads(self._get("/v1/models") or b"{}")["data"]
            return any(model["id"] == self.spec.name for model in models)
        except (ValueError, LookupError, TypeError):  # not what such a server says
            return False

    def _get(self, path: str) -> bytes | None:
        """What is answered to a GET with its key; None if that is no success."""
        key = self.spec.api_key
        # No proxy of the environment's lies between a process and its child.
        connection = http.client.HTTPConnection(
            reachable_host(self.spec.host), self.spec.port, timeout=5
        )
        try:
            connection.request(
                "GET", path, headers={"Authorization": f"Bearer {key}"} if key else {}
            )
            response = connection.getresponse()
            return response.read() if response.status == http.HTTPStatus.OK else None
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def reachable_host(host: str) -> str:
    """The address at which this machine reaches a server of its own that listens on `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _entry_point(model: str) -> list[str]:
    """Python and the module that serves a model.

    vLLM's own command wants to know its version, from metadata that a repackaged vLLM lacks.
    """
    # -P: what lies in the working folder must not stand in for an installed package.
    python = [sys.executable, "-P", "-m"]
    try:
        metadata.version("vllm")
    except metadata.PackageNotFoundError:
        return [*python, "vllm.entrypoints.openai.api_server", "--model", model]
    return [*python, "vllm.entrypoints.cli.main", "serve", model]


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings by vLLM's Python names as flags; None is left to vLLM."""
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
