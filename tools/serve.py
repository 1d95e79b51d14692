"""`mai serve`: the cascade behind an OpenAI-compatible endpoint, or its two models."""

import ipaddress
import logging
import os
import signal
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typing_extensions import override

from .errors import UsageError, printable, reports_errors
from .model_servers import LAST_PORT, StopSignals, base_url, serve_models
from .options import Debug, Json, require

if TYPE_CHECKING:
    from ..models.pairs import Pair
    from ..serving.endpoint import Endpoint

_ENDPOINT = "The endpoint"
_MODELS = "With --models"
_SHUTDOWN_SECONDS = 30


@reports_errors
def serve(
    context: typer.Context,
    pair: Annotated[
        str | None,
        typer.Argument(help="A pair's name (see `mai pairs`) or file.", show_default="demo"),
    ] = None,
    *,
    models: Annotated[
        bool,
        typer.Option(
            "--models", help="Serve the two models with vLLM instead, and print their pair file."
        ),
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for other machines too.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LAST_PORT,
            help="Port; of the first server, with --models.",
            show_default="8000, with --models 8101 and the next",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds that one model call may take; with --models, a server to get ready.",
            show_default="120, with --models 1800",
        ),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable with the key that clients must send.",
            rich_help_panel=_ENDPOINT,
        ),
    ] = None,
    no_auth: Annotated[
        bool,
        typer.Option(
            "--no-auth", help="Let other machines in without a key.", rich_help_panel=_ENDPOINT
        ),
    ] = False,
    gate: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What mai calibrate wrote: skip the large model where the small one is sure.",
            rich_help_panel=_ENDPOINT,
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Questions that run at a time.", rich_help_panel=_ENDPOINT)
    ] = 8,
    queue: Annotated[
        int, typer.Option(min=0, help="Questions that may wait.", rich_help_panel=_ENDPOINT)
    ] = 64,
    allow_fetch: Annotated[
        bool,
        typer.Option("--allow-fetch", help="Fetch http(s) images.", rich_help_panel=_ENDPOINT),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(help="Serve only one model, small or large.", rich_help_panel=_MODELS),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the pair file here too.", rich_help_panel=_MODELS),
    ] = None,
    log_dir: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for the servers' logs.", rich_help_panel=_MODELS),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001  read by reports_errors
) -> None:
    """Serve a pair behind an OpenAI-compatible endpoint, until Ctrl-C."""
    for option in context.command.params:
        panel = getattr(option, "rich_help_panel", None)
        source = context.get_parameter_source(str(option.name))
        if panel == (_ENDPOINT if models else _MODELS) and source and source.name == "COMMANDLINE":
            words = "without --models" if models else "with --models"
            raise UsageError(f"{option.opts[0]} is for `mai serve` {words}; leave it out.")
    if models:
        serve_models(
            pair or "demo-vllm",
            host,
            port or 8101,
            timeout or 1800,
            only=only,
            write=write,
            log_dir=log_dir,
            as_json=as_json,
        )
        return
    key = _api_key(api_key_env, host, no_auth=no_auth)
    require("fastapi", "uvicorn", "prometheus_client", extra="serve")
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from ..models.pairs import load_pair
    from ..serving.endpoint import Endpoint

    served = load_pair(pair or "demo", allow_fetch=allow_fetch)
    endpoint = Endpoint(
        served if gate is None else replace(served, gate=gate),
        api_key=key,
        concurrency=concurrency,
        queue=queue,
        timeout=timeout or 120,
        allow_fetch=allow_fetch,
    )
    if key is None and not no_auth:
        # A web page whose name leads here by its own DNS would be of this origin.
        names = ["localhost", "127.0.0.1", "[::1]", host]
        endpoint.add_middleware(TrustedHostMiddleware, allowed_hosts=names)
    _run(endpoint, served, host, port or 8000)


class _PlainFormatter(logging.Formatter):
    """Leaves out of a log what a terminal would obey: a server says why it fails."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _run(endpoint: "Endpoint", pair: "Pair", host: str, port: int) -> None:
    """Load the models and serve until a signal comes; what runs then is finished."""
    import uvicorn

    from ..models.errors import UnreachableError
    from ..models.vllm.servers import PortError, check_port
    from .progress import Progress

    try:
        check_port(host, port)
    except PortError as error:
        raise UsageError(str(error)) from error
    with Progress() as progress:
        models: dict[str, Any] = {"small": pair.small, "large": pair.large}
        for role, model in models.items():
            progress.start(step := f"loading the {role} model")
            with suppress(UnreachableError):  # a server may come later; /health tells
                model.load()
            progress.finish(step)
    log = logging.StreamHandler()
    log.setFormatter(_PlainFormatter())
    logging.basicConfig(handlers=[log])
    logging.getLogger(f"{__package__.rpartition('.')[0]}.serving").setLevel(logging.INFO)
    config = uvicorn.Config(
        endpoint,
        host=host,
        port=port,
        log_config=None,
        log_level="warning",
        access_log=False,
        http="h11",  # which bounds headers; httptools reads any number of bytes
        timeout_keep_alive=60,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    # uvicorn ends by SIGINT and SIGTERM, and raises them again when all is done.
    StopSignals()
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, server.handle_exit)
    typer.echo(f"{pair.name} on {base_url(host, port)}; Ctrl-C ends it.", err=True)
    server.run()


def _api_key(name: str | None, host: str, *, no_auth: bool) -> str | None:
    """Return the key that clients must send; None if there is none.

    Raises:
        UsageError: The variable is empty, or other machines would need no key.
    """
    if name is not None:
        if key := os.environ.get(name):
            return key
        raise UsageError(f"The environment variable {name} holds no key; set it.")
    try:
        own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = host == "localhost"
    if not own and not no_auth:
        raise UsageError(
            f"Other machines could use {host} without a key: name its variable with --api-key-env, "
            "or add --no-auth."
        )
    return None
