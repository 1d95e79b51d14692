"""The endpoint: its addresses, who may use it, and how much of it runs at a time."""

import asyncio
import hmac
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive
from typing_extensions import override

from ..models.pairs import Pair
from .metrics import ROLES, Metrics
from .protocol import ChatRequest, Completion, Envelope, RequestError, read_request
from .strategies import Strategies

MAX_BODY_BYTES = 20 << 20
"""Larger requests are refused."""

BODY_SECONDS = 30.0
"""How long a client may take to send a request."""

KEEP_ALIVE_SECONDS = 10.0
"""How long a stream is silent at most; proxies close what seems dead."""

PROBE_SECONDS, SILENT_SECONDS = 5.0, 30.0
"""How often a model is tried that failed last, and after how long without a call any is."""

_UNEXPECTED = RequestError("An unexpected error; the server's log has it.", 500)

_Result = TypeVar("_Result")


class _JSON(JSONResponse):
    """JSON in ASCII: models may generate half characters, and line breaks that end an event."""

    @override
    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


class Endpoint(FastAPI):
    """A pair behind `/v1/chat/completions` and `/v1/models`, with `/health` and `/metrics`.

    An ASGI app, for uvicorn or any other server. It keeps nothing between two requests, so that
    any number of processes may be behind one address.
    """

    def __init__(
        self,
        pair: Pair,
        *,
        api_key: str | None = None,
        concurrency: int = 8,
        queue: int = 64,
        timeout: float = 120.0,
        allow_fetch: bool = False,
    ) -> None:
        """Build the app; local models load when it starts.

        Args:
            pair: The models.
            api_key: What clients send as their key; None lets everybody in.
            concurrency: Questions that run at a time.
            queue: Questions that wait for those; more are refused with status 429.
            timeout: Seconds that one model call may take.
            allow_fetch: Whether http(s) images are fetched; load the pair with it, too.
        """
        super().__init__(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)
        self._key = api_key
        self._counts = Metrics()
        self._strategies = Strategies(pair, self._counts, timeout=timeout, allow_fetch=allow_fetch)
        self._turns = asyncio.Semaphore(concurrency)
        self._free = self._most = concurrency + queue
        self._seconds = 1.0 / concurrency  # a running mean of what one question adds to the wait
        self._concurrency = concurrency
        self._created = int(time.time())
        for kind in (RequestError, HTTPException, ClientDisconnect, Exception):
            self.add_exception_handler(kind, self._refuse)
        self.add_api_route("/health", self.health)
        keyed = APIRouter(dependencies=[Depends(self.check_key)])
        keyed.add_api_route(
            "/v1/chat/completions", self.chat_completions, methods=["POST"], response_model=None
        )
        keyed.add_api_route("/v1/models", self.models)
        keyed.add_api_route("/metrics", self.metrics)
        self.include_router(keyed)

    async def check_key(self, request: Request) -> None:
        """Refuse a client without the key.

        Raises:
            RequestError: It has another one, or none.
        """
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._key is not None and not hmac.compare_digest(key.encode(), self._key.encode()):
            raise RequestError("The API key is missing or wrong.", 401, code="invalid_api_key")

    async def chat_completions(self, request: Request) -> Response:
        """Answer a question."""
        if not self._free:
            # A client that still sends would miss the response.
            await _body(request, keep=False)
            words = "Too many questions at a time; try again later."
            error = RequestError(words, 429, code="rate_limit_exceeded")
            error.retry_after = math.ceil(self._seconds * self._most)
            raise error
        self._free -= 1
        try:
            chat = read_request(await _body(request))
            self._strategies.check(chat)
        except BaseException:
            self._free += 1
            raise
        parts: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
        run = asyncio.create_task(self._answer(chat, parts))
        # A place is free again when the run has really ended.
        run.add_done_callback(lambda run: self._end(run, parts))
        try:
            if not chat.stream:
                done = await _unless_gone(request.receive, run)
                return _JSON(Envelope(chat.model).whole(done))
            # What fails before there is something to send has a status of its own.
            first = asyncio.ensure_future(parts.get())
            await _unless_gone(request.receive, asyncio.wait({first}, timeout=KEEP_ALIVE_SECONDS))
            if run.done():
                run.result()
        except BaseException:
            run.cancel()
            raise
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        events = _events(chat, run, first, parts)
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")

    async def models(self) -> dict[str, Any]:
        """List what a request may name as its model."""
        kind = {"object": "model", "created": self._created, "owned_by": "langgraph-mai"}
        return {"object": "list", "data": [{"id": name} | kind for name in self._strategies.names]}

    async def health(self) -> JSONResponse:
        """Tell whether both models answer."""
        status, state = self._counts.health()
        return JSONResponse(state, status)

    async def metrics(self) -> Response:
        """Return the counters for Prometheus."""
        return Response(generate_latest(self._counts.registry), media_type=CONTENT_TYPE_LATEST)

    async def watch(self, role: str) -> None:
        """Try a model again and again while nobody else does, or while it fails."""
        while True:
            if self._counts.is_silent(role, SILENT_SECONDS):
                await self._strategies.probe(role)
            await asyncio.sleep(PROBE_SECONDS)

    async def _answer(self, chat: ChatRequest, parts: "asyncio.Queue[Any]") -> Completion:
        with self._counts.waiting.track_inprogress():
            await self._turns.acquire()
        start = time.monotonic()
        try:
            with self._counts.in_flight.track_inprogress():
                emit = parts.put_nowait if chat.stream else None
                return await self._strategies.complete(chat, emit)
        finally:
            self._turns.release()
            took = (time.monotonic() - start) / self._concurrency
            self._seconds += (took - self._seconds) / 10

    def _end(self, run: "asyncio.Task[Completion]", parts: "asyncio.Queue[Any]") -> None:
        self._free += 1
        parts.put_nowait(None)
        if run.cancelled():
            self._counts.requests.labels(499).inc()
        elif not run.exception():
            self._counts.requests.labels(200).inc()

    async def _refuse(self, request: Request, error: Exception) -> Response:
        if isinstance(error, ClientDisconnect):
            return Response(status_code=499)
        if isinstance(error, HTTPException):
            words = f"{request.method} {request.url.path} is not served here."
            error = RequestError(words, error.status_code)
        known = error if isinstance(error, RequestError) else _UNEXPECTED
        self._counts.requests.labels(known.status).inc()
        headers = {"Retry-After": str(known.retry_after)} if known.retry_after else None
        return _JSON(known.body, known.status, headers)


@asynccontextmanager
async def _lifespan(app: Endpoint) -> AsyncIterator[None]:
    watching = [asyncio.create_task(app.watch(role)) for role in ROLES]
    yield
    for task in watching:
        task.cancel()


async def _unless_gone(receive: Receive, work: Awaitable[_Result]) -> _Result:
    """Await `work`, and cancel it if the client goes away before; the request has been read.

    Raises:
        ClientDisconnect: The client has gone.
    """

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, watching = asyncio.ensure_future(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


async def _events(
    chat: ChatRequest,
    run: "asyncio.Task[Completion]",
    part: "asyncio.Future[Any]",
    parts: "asyncio.Queue[Any]",
) -> AsyncIterator[bytes]:
    """Make the events of a stream from a run, its next part and those that follow."""
    envelope, role = Envelope(chat.model), {"role": "assistant"}
    try:
        while not part.done() or part.result() is not None:
            if part.done():
                yield _event(envelope.chunk(role | part.result()))
                role, part = {}, asyncio.ensure_future(parts.get())
            else:
                yield b": the models work\n\n"
            await asyncio.wait({part}, timeout=KEEP_ALIVE_SECONDS)
        if error := run.exception():
            yield _event((error if isinstance(error, RequestError) else _UNEXPECTED).body)
        else:
            usage = bool(chat.stream_options and chat.stream_options.include_usage)
            for chunk in envelope.last_chunks(run.result(), usage=usage):
                yield _event(chunk)
        yield b"data: [DONE]\n\n"
    finally:
        run.cancel()
        part.cancel()


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + _JSON(body).body + b"\n\n"


async def _body(request: Request, *, keep: bool = True) -> bytes:
    """Read a request's body, or drop it.

    That it must be JSON keeps web pages of other origins from sending one unasked.
    """
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError("Send JSON, with the header Content-Type: application/json.", 415)
    body, length = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk if keep else b""
                length += len(chunk)
                if length > MAX_BODY_BYTES:
                    raise RequestError(
                        f"The request is larger than {MAX_BODY_BYTES >> 20} MiB.", 413
                    )
    except TimeoutError as error:
        raise RequestError(f"The request took more than {BODY_SECONDS:.0f} s.", 408) from error
    return bytes(body)
