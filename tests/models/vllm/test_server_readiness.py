"""When a server counts as ready: small programs stand in for vLLM's server and for others."""

import contextlib
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from processes import free_port

from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.vllm.options import EngineSpec
from langgraph_mai.models.vllm.ports import PortError, check_port
from langgraph_mai.models.vllm.server_group import ServerGroup
from langgraph_mai.models.vllm.server_process import ServerProcess, ServerSpec

ENGINE = EngineSpec("/weights", None, "auto", "auto", 0.1, 1, "{}")
SERVES = '{"data": [{"id": "org/small"}]}'


@dataclass(frozen=True, slots=True)
class Program(ServerSpec):
    """A server that is another program than vLLM's."""

    code: str = ""

    def command(self):
        return [sys.executable, "-c", self.code]


SLEEPS = "import time; time.sleep(600)"
ENDS = "print('ValueError: not today')"
LISTENS = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["Authorization"] == "Bearer " + os.environ["VLLM_API_KEY"]
        self.send_response(200 if known or self.path == "/health" else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "org/other"}, {"id": "org/small"}]}')
HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""


def program(code, port, key=None):
    code = code.replace("PORT", str(port))
    return Program("org/small", ENGINE, "127.0.0.1", port, api_key=key, code=code)


@contextlib.contextmanager
def somebody_else(models, status=200):
    """Another program's server; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/health" else status)
            self.end_headers()
            self.wfile.write(models.encode())

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def started(spec, folder):
    server = ServerProcess(spec, folder / "small.log", {})
    try:
        yield server
    finally:
        server.end()


def looks(count):
    """Goes on waiting for so many looks."""
    left = iter(range(count))
    return lambda message: next(left, None) is not None


@pytest.mark.parametrize(
    ("models", "status"),
    [
        ('{"data": [{"id": "org/another"}]}', 200),
        ('{"data": []}', 200),
        ('{"data": [7]}', 200),
        ("[]", 200),
        ("<html>Welcome</html>", 200),
        ("", 404),
        (SERVES, 401),
    ],
)
def test_somebody_else_on_the_port_is_not_the_server(tmp_path, models, status):
    with (
        somebody_else(models, status) as port,
        started(program(SLEEPS, port), tmp_path) as server,
    ):
        assert not server.wait_until_healthy(60, looks(3))


def test_a_server_that_ended_is_not_ready_whoever_answers(tmp_path):
    with somebody_else(SERVES) as port, started(program(ENDS, port), tmp_path) as server:
        while server.runs:
            pass
        with pytest.raises(ModelError, match="not today"):
            server.wait_until_healthy(60, looks(1000))


def test_a_server_with_a_key_is_asked_with_it(tmp_path):
    port = free_port()
    with started(program(LISTENS, port, key="k-1"), tmp_path) as server:
        assert server.wait_until_healthy(60, looks(1000))


def test_a_port_that_was_taken_meanwhile_is_found_before_the_start(tmp_path):
    servers = ServerGroup(tmp_path, {})
    with somebody_else(SERVES) as port:
        with pytest.raises(PortError, match=f"port {port} "):
            servers.start("small", program(SLEEPS, port), 60, looks(3))
        assert not list(tmp_path.iterdir())
    check_port("127.0.0.1", port)
