"""`mai serve --models`: a vLLM server for each model of a pair, until Ctrl-C."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
import yaml

from ..configs import ModelConfig, PairConfig, load_pair_config
from ..configs.files import existing_file, existing_folder
from .entry import INTERRUPTED
from .errors import UsageError
from .options import print_json

if TYPE_CHECKING:
    from ..models.vllm.servers import ServerGroup, ServerSpec

LAST_PORT = 65535
_EVERYWHERE = {"", "0.0.0.0", "::"}


class StopSignals:
    """Counts the signals that ask this process to end, which then does not end by itself."""

    def __init__(self) -> None:
        """Take the signals over, for good. Only the main thread may.

        What is ignored stays so: `nohup` wants a command to outlive its terminal.
        """
        self._count = 0
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    @property
    def asked(self) -> bool:
        """Whether one came."""
        return self._count > 0

    @property
    def asked_again(self) -> bool:
        """Whether more than one came: whoever sent them does not want to wait."""
        return self._count > 1

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        # No lock: the handler may interrupt the very code that holds it.
        self._count += 1


def serve_models(
    pair: str,
    host: str,
    port: int,
    timeout: float,
    *,
    only: str | None,
    write: str | None,
    log_dir: str | None,
    as_json: bool,
) -> None:
    """Serve a pair's models with vLLM, and print the pair file that uses the servers.

    The arguments are the options of `mai serve --models`; `timeout` is for one server to get ready,
    downloads included.
    """
    from ..models.vllm.engine_args import check_engine, quiet

    environ = quiet(os.environ)
    config = load_pair_config(pair)
    roles = _roles(config, pair, only)
    on_servers = [role for role in ("small", "large") if config.backend_of(role) == "server"]
    file = _file_to_write(write, pair, complete=len({*roles, *on_servers}) == 2)
    ports = _free_ports(host, port, roles)
    specs = {role: _server_spec(config, role, host, ports[role]) for role in roles}
    for spec in specs.values():
        check_engine(spec.engine, spec.name)

    from ..models.vllm.servers import ServerGroup

    urls = {role: base_url(host, ports[role]) for role in roles}
    logs = _log_folder(log_dir)
    signals = StopSignals()
    servers = ServerGroup(logs, environ)
    try:
        ready = _start(servers, specs, urls, timeout, signals)
        if ready:
            served = served_pair(config, Path(pair).stem, urls)
            if file:
                file.write_text(pair_yaml(served), encoding="utf-8")
            if as_json:
                print_json(served)
            else:
                typer.echo(pair_yaml(served), nl=False)
            typer.echo("Ready. Ctrl-C ends the servers.", err=True)
            servers.watch(lambda: signals.asked)
    finally:
        servers.end(patient=lambda: not signals.asked_again)
    if log_dir is None:
        shutil.rmtree(logs, ignore_errors=True)
    if not ready:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(INTERRUPTED)


def _roles(pair: PairConfig, name: str, only: str | None) -> list[str]:
    """The models to serve: those that no other server has."""
    if only not in {None, "small", "large"}:
        raise UsageError(f"--only takes small or large, not {only!r}.")
    wanted = [only] if only else ["small", "large"]
    roles = [role for role in wanted if pair.backend_of(role) != "server"]
    if not roles:
        which = f"The {only} model of the pair {name!r} is" if only else f"The pair {name!r} is"
        raise UsageError(
            f"{which} on servers that already run; serve a pair that names models instead, such as "
            "demo-vllm (see `mai pairs`)."
        )
    total = sum(pair.memory_of(role) for role in roles)
    if len(roles) > 1 and pair.on_one_device and total > 1:
        raise UsageError(
            f"small.memory and large.memory of the pair {name!r} are shares of one GPU and add up "
            f"to {total:g}; they must not exceed 1."
        )
    return roles


def _file_to_write(write: str | None, pair: str, *, complete: bool) -> Path | None:
    """The file for the pair, checked to be writable."""
    if write is None:
        return None
    file = Path(write).expanduser()
    source = existing_file(pair)
    if not complete:
        raise UsageError(
            "--write needs both models; with one on another machine, put what is printed into "
            "your pair file."
        )
    if file.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"A pair file ends in .yaml; {write!r} does not.")
    if not existing_folder(file.parent):
        raise UsageError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into.")
    if source and file.exists() and file.samefile(source):
        raise UsageError("--write would overwrite the pair that is served; name another file.")
    # Opened as if to write it, and left as it was.
    target = file.resolve()
    there = target.exists()
    if there and not target.is_file():
        raise UsageError(f"--write names {str(file)!r}, which is no file; name another.")
    try:
        with target.open("ab"):
            pass
        if not there:
            target.unlink()
    except OSError as error:
        raise UsageError(
            f"--write cannot write {str(file)!r} ({error.strerror}); name another file."
        ) from error
    return file


def _free_ports(host: str, first: int, roles: Sequence[str]) -> dict[str, int]:
    """A port for each role, checked to be free."""
    from ..models.vllm.servers import PortError, check_port

    ports = {role: first + number for number, role in enumerate(roles)}
    if max(ports.values()) > LAST_PORT:
        raise UsageError(f"The second server needs the port after {first}, and there is none.")
    for port in ports.values():
        try:
            check_port(host, port)
        except PortError as error:
            raise UsageError(str(error)) from error
    return ports


def _server_spec(pair: PairConfig, role: str, host: str, port: int) -> "ServerSpec":
    from ..models.local_chat import model_weights
    from ..models.vllm.engine_args import EngineSpec, options_json
    from ..models.vllm.servers import ServerSpec

    model = getattr(pair, role)
    device, _, gpu = model.device.partition(":")
    if gpu and not (device == "cuda" and gpu.isdecimal()):
        raise UsageError(f"There is no device {model.device!r}; write cuda:0, cuda:1 and so on.")
    return ServerSpec(
        name=model.model,
        engine=EngineSpec(
            model=model_weights(model.model),
            revision=model.revision,
            dtype=model.dtype,
            device=device,
            memory=pair.memory_of(role),
            max_images=model.max_images,
            options=options_json(model.engine),
        ),
        host=host,
        port=port,
        gpu=int(gpu) if gpu else None,
        api_key=os.environ.get(model.api_key_env) or None,
    )


def _log_folder(log_dir: str | None) -> Path:
    from ..models.vllm.engine_args import private_folder

    if log_dir is None:
        return private_folder("langgraph-mai-serve-")
    folder = Path(log_dir).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"No logs can be written to {log_dir!r} ({error.strerror}).") from error
    return folder


def _start(
    servers: "ServerGroup",
    specs: Mapping[str, "ServerSpec"],
    urls: Mapping[str, str],
    timeout: float,
    signals: "StopSignals",
) -> bool:
    """Start one server after the other; False if a signal came in between."""
    from .progress import Progress

    with Progress() as progress:
        for role, spec in specs.items():
            start = time.monotonic()
            step = f"starting the {role} model's server"
            progress.start(step)

            def goes_on(message: str, step: str = step) -> bool:
                progress.note(step, message[:80])
                return not signals.asked

            if not servers.start(role, spec, timeout, goes_on):
                return False
            progress.finish(step)
            seconds = time.monotonic() - start
            typer.echo(f"{role}: {spec.name} on {urls[role]} after {seconds:.0f} s", err=True)
    return True


def base_url(host: str, port: int) -> str:
    """Where clients reach a server.

    Args:
        host: The address it listens on; for all addresses, clients are given this machine's name.
        port: Its port.
    """
    name = socket.gethostname() if host in _EVERYWHERE else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/v1"


def served_pair(pair: PairConfig, name: str, urls: Mapping[str, str]) -> dict[str, Any]:
    """A pair as a client of servers sees it, in the form of a pair file.

    Args:
        pair: The pair that is served.
        name: What people call it.
        urls: `base_url` by role, of the models that are served here.

    Returns:
        The whole pair; only the models of `urls`, by role, where another machine serves the rest.
    """
    roles = ("small", "large")
    models = {
        role: _served_model(getattr(pair, role), urls.get(role))
        for role in roles
        if role in urls or pair.backend_of(role) == "server"
    }
    if len(models) < len(roles):
        return models
    return {
        "description": f"The models of {name} on servers that `mai serve --models` started.",
        "backend": "server",
        "prompts": pair.prompts,
        **models,
        # Servers give no attention: the client still uses the pair's selector.
        **pair.model_dump(include={"sparse", "selector"}, exclude_defaults=True),
    }


def pair_yaml(pair: Mapping[str, Any]) -> str:
    """A pair as the text of a pair file."""
    text: str = yaml.safe_dump(dict(pair), sort_keys=False, width=100)
    return text


def _served_model(model: ModelConfig, url: str | None) -> dict[str, Any]:
    """What a client needs to know: what differs from the defaults."""
    kept = ("max_pixels", "timeout", "api_key_env", "retries")
    defaults = {key: ModelConfig.model_fields[key].default for key in kept}
    settings = {key: getattr(model, key) for key in kept}
    changed = {key: value for key, value in settings.items() if value != defaults[key]}
    return {"model": model.model, "base_url": url or model.base_url} | changed
