"""A server with an OpenAI-compatible API on 127.0.0.1, which answers or misbehaves by script."""

import json
import re
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]

USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 2,
    "total_tokens": 22,
    "prompt_tokens_details": {"cached_tokens": 16},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        models = [{"id": name, "object": "model"} for name in self.server.owner.models]
        if self.path != "/v1/models":
            self.reply(404, {"detail": "Not Found"})
        elif self.server.owner.listing:
            self.server.owner.listing(self, {})
        else:
            self.reply(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        owner.requests.append({"path": self.path, "headers": headers, "body": body})
        if self.path.partition("?")[0] != "/v1/chat/completions":
            return self.reply(404, {"detail": "Not Found"})
        if body["model"] not in owner.models:
            message = f"The model `{body['model']}` does not exist."
            return self.reply(404, {"error": {"message": message, "type": "NotFoundError"}})
        behaviour = owner.script.popleft() if owner.script else owner.otherwise
        return behaviour(self, body)

    def reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        html = isinstance(body, str)
        data = body.encode() if html else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if html else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def events(self, events: list[Any], *, end: bool = True) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        if end:
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        pass


class ChatServerProcess:
    """The server; `script` says what becomes of the next requests, `otherwise` of all later ones.

    Attributes:
        models: Names of the models that it has.
        listing: What becomes of GET /models, if it is not answered as usual.
        requests: Path, headers (in lower case) and body of every POST so far.
        hung_up: Set when a client ended a request that hangs.
    """

    def __init__(self) -> None:
        self.models = ["m"]
        self.script: deque[Behaviour] = deque()
        self.otherwise: Behaviour = answers("yes")
        self.listing: Behaviour | None = None
        self.requests: list[dict[str, Any]] = []
        self.stopping = threading.Event()
        self.hung_up = threading.Event()
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start, or come back under the same address."""
        self.stopping.clear()
        self._http = _Connections(("127.0.0.1", self._port), Handler)
        self._http.owner = self
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Go down, open connections included."""
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Connections(ThreadingHTTPServer):
    owner: ChatServerProcess
    daemon_threads = False  # server_close waits for them
    request_queue_size = 256

    def __init__(self, *arguments: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for request in list(self._open):
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                self._open.discard(request)
        super().server_close()

    def handle_error(self, *_: Any) -> None:
        pass  # a client that went away


def chunk(text: str | None = "", finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish}
    return completion(choice) | {"object": "chat.completion.chunk"}


def completion(choice: dict[str, Any], model: str = "m") -> dict[str, Any]:
    named = {"id": "1", "object": "chat.completion", "created": 1, "model": model}
    return named | {"choices": [choice]}


def answers(text: str | None, finish: str = "stop", **channels: str | None) -> Behaviour:
    """A right answer, streamed by words if it is asked for so.

    Args:
        text: Its content.
        finish: How it ends.
        channels: Texts beside the content, such as `reasoning_content` and `refusal`.
    """

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, **channels}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return handler.reply(200, completion(choice, body["model"]) | {"usage": USAGE})
        events = [
            chunk(None, **{name: word})
            for name, value in channels.items()
            for word in words(value or "")
        ]
        events += [*map(chunk, words(text or "")), chunk("", finish)]
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append(chunk() | {"choices": [], "usage": USAGE})
        return handler.events(events)

    return behave


def words(text: str) -> list[str]:
    """A text in pieces that add up to it."""
    return re.findall(r"\S+\s*", text)


def fails(status: int, message: str = "something broke", **headers: str) -> Behaviour:
    """An error in the form of vLLM's server."""
    error = {"error": {"message": message, "type": "Error", "param": None, "code": status}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _body: handler.reply(status, error, named)


def hangs(handler: Handler, _body: dict[str, Any]) -> None:
    """Nothing, until the client hangs up or the server is stopped."""
    owner = handler.server.owner
    handler.close_connection = True
    while not owner.stopping.is_set():
        if select.select([handler.connection], [], [], 0.01)[0]:
            owner.hung_up.set()
            return


def dies_before(handler: Handler, _body: dict[str, Any]) -> None:
    """The connection is closed without a word."""
    handler.close_connection = True


def dies_halfway(handler: Handler, body: dict[str, Any]) -> None:
    """The connection is closed in the middle of an answer."""
    handler.close_connection = True
    if body.get("stream"):
        return handler.events([chunk("It "), chunk("is ")], end=False)
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": "1", "choices": [')
    return None


def fails_halfway(handler: Handler, _body: dict[str, Any]) -> None:
    """An error event in the middle of a stream, as vLLM sends it."""
    handler.events([chunk("It "), {"error": {"message": "EngineCore died", "code": 500}}])


def fails_at_once(handler: Handler, body: dict[str, Any]) -> None:
    """An error event instead of an answer."""
    if body.get("stream"):
        return handler.events([{"error": {"message": "EngineCore died", "code": 500}}])
    return fails(500, "EngineCore died")(handler, body)


def page(handler: Handler, _body: dict[str, Any]) -> None:
    """A web page, as from a proxy."""
    handler.reply(200, "<!DOCTYPE html><html><body>Please log in</body></html>")


def replies(body: Any) -> Behaviour:
    """Any JSON."""
    return lambda handler, _body: handler.reply(200, body)


def sends(data: bytes, kind: str = "application/json") -> Behaviour:
    """Any bytes, as JSON or, with the kind `text/event-stream`, as a stream."""

    def behave(handler: Handler, _body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return behave


def has_context(limit: int, behaviour: Behaviour, *, exact: bool = True) -> Behaviour:
    """A model with a context of so many words, which says so as vLLM does."""

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        length = words_in(body)
        if length < limit:
            return behaviour(handler, body)
        tokens = f"{length}" if exact else f"at least {limit + 1}"
        return fails(
            400,
            f"This model's maximum context length is {limit} tokens. However, your prompt contains "
            f"{tokens} input tokens, which exceeds this limit even without any output tokens.",
        )(handler, body)

    return behave


def words_in(body: dict[str, Any]) -> int:
    contents = [message["content"] for message in body["messages"]]
    parts = [[{"text": part}] if isinstance(part, str) else part for part in contents]
    return sum(len(block.get("text", "").split()) for blocks in parts for block in blocks)
