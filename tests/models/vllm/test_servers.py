"""How servers are started, when they count as ready, how they end. Nothing here starts vLLM."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from processes import free_port

import langgraph_mai.models.site
from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.vllm.engine_args import EngineSpec, options_json, with_log
from langgraph_mai.models.vllm.servers import PortError, ServerGroup, ServerSpec, check_port

SITE = str(Path(langgraph_mai.models.site.__file__).parent)


def spec(name="org/small", gpu=None, api_key=None, **engine_options):
    options = options_json(engine_options)
    engine = EngineSpec("/weights/small", None, "bfloat16", "auto", 0.25, 3, options)
    return ServerSpec(name, engine, host="127.0.0.1", port=8101, gpu=gpu, api_key=api_key)


def test_the_command_line_holds_the_settings_of_the_pair():
    command = spec().command()
    assert "/weights/small" in command
    for flag in (
        "--served-model-name=org/small",
        "--dtype=bfloat16",
        "--gpu-memory-utilization=0.25",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        '--limit-mm-per-prompt={"image": 3, "video": 0}',
        "--max-model-len=-1",
        "--host=127.0.0.1",
        "--port=8101",
    ):
        assert flag in command
    assert not [word for word in command if word.startswith(("--revision", "--disable-log-stats"))]
    command = spec(
        max_model_len=4096,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        hf_overrides={"a": 1},
        cudagraph_capture_sizes=[1, 2],
        seed=None,
        override_generation_config={"top_k": 5},
    ).command()
    for flag in (
        "--max-model-len=4096",
        "--enforce-eager",
        "--no-enable-prefix-caching",
        '--hf-overrides={"a": 1}',
    ):
        assert flag in command
    at = command.index("--cudagraph-capture-sizes")
    assert command[at + 1 : at + 3] == ["1", "2"]
    for name in ("--max-model-len=-1", "--enable-prefix-caching", "--seed"):
        assert name not in command
    # The sampling of a checkpoint is overridden, but not that of the pair.
    (flag,) = (word for word in command if word.startswith("--override-generation-config="))
    sampling = json.loads(flag.partition("=")[2])
    assert (sampling["temperature"], sampling["top_k"], sampling["top_p"]) == (0.0, 5, 1.0)


def test_both_ways_to_serve(monkeypatch):
    """A repackaged vLLM has no metadata under its own name, which `vllm serve` reads."""
    for version, words in (
        (lambda name: "0.33", ["vllm.entrypoints.cli.main", "serve", "/weights/small"]),
        (None, ["vllm.entrypoints.openai.api_server", "--model", "/weights/small"]),
    ):
        with monkeypatch.context() as patched:
            if version:
                patched.setattr("importlib.metadata.version", version)
            elif "vllm" in sys.modules:
                continue
            assert spec().command()[3 : 3 + len(words)] == words


def test_keys_are_in_the_environment_alone():
    with_key = spec(api_key="secret")
    assert with_key.environment({})["VLLM_API_KEY"] == "secret"
    assert "secret" not in " ".join(with_key.command())
    assert "secret" not in repr(with_key)
    assert "VLLM_API_KEY" not in spec().environment({"VLLM_API_KEY": "of another server"})


def test_a_device_is_one_of_the_visible_gpus():
    for gpu, visible, expected in (
        (1, None, "1"),
        (1, "2,3", "3"),
        (0, "GPU-ab12,GPU-cd34", "GPU-ab12"),
        (None, "2", "2"),
    ):
        environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        assert spec(gpu=gpu).environment(environ)["CUDA_VISIBLE_DEVICES"] == expected
    with pytest.raises(ModelError, match=r"no device cuda:1 .* shows 1 GPU"):
        spec(gpu=1).environment({"CUDA_VISIBLE_DEVICES": "0"})


def environment(path=None):
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return spec().environment(environ if path is None else {**environ, "PYTHONPATH": path})


def test_the_folder_of_sitecustomize_comes_first_and_the_users_own_is_imported_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    path = environment(str(tmp_path))["PYTHONPATH"]
    assert path == os.pathsep.join([SITE, str(tmp_path)])
    assert environment(path)["PYTHONPATH"] == path
    done = subprocess.run(
        [sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"],
        env=environment(str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["mine", str(tmp_path / "sitecustomize.py")]


@pytest.mark.parametrize("name", ["vllm", "other"])
def test_processes_of_vllm_and_no_others_end_with_their_parent(name):
    child = "import time; time.sleep(600)"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}, {name!r}])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True
    ) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        time.sleep(1)
        parent.kill()
    _, alive = psutil.wait_procs([child], timeout=10 if name == "vllm" else 2)
    assert bool(alive) == (name == "other")
    for process in alive:
        process.kill()


SERVES = '{"data": [{"id": "org/small"}]}'
LISTENS = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["Authorization"] == "Bearer " + os.environ["VLLM_API_KEY"]
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "org/other"}, {"id": "org/small"}]}')
HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""


@dataclass(frozen=True, slots=True)
class Program(ServerSpec):
    """A server that is another program than vLLM's."""

    code: str = ""

    def command(self):
        return [sys.executable, "-c", self.code]


def program(code, port, key=None):
    engine = EngineSpec("/weights", None, "auto", "auto", 0.1, 1, "{}")
    code = code.replace("PORT", str(port))
    return Program("org/small", engine, "127.0.0.1", port, api_key=key, code=code)


@contextlib.contextmanager
def somebody_else(models, status=200):
    """Another program's server; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
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


def test_somebody_else_on_the_port_is_not_the_server():
    for models, status in (
        ('{"data": [{"id": "org/another"}]}', 200),
        ('{"data": [7]}', 200),
        ("[]", 200),
        ("<html>Welcome</html>", 200),
        ("", 404),
        (SERVES, 401),
    ):
        with somebody_else(models, status) as port:
            assert not program("", port).answers()
    with somebody_else(SERVES) as port:
        assert program("", port).answers()


@pytest.fixture
def group(tmp_path):
    servers = ServerGroup(tmp_path, os.environ)
    yield servers
    servers.end(patient=lambda: True)


def test_a_server_is_asked_with_its_key_and_watched(group):
    port = free_port()
    others = psutil.Process().children()
    assert group.start("small", program(LISTENS, port, key="k-1"), 60, lambda line: True)
    (child,) = [one for one in psutil.Process().children() if one not in others]
    with pytest.raises(PortError, match=f"port {port} "):
        group.start("large", program(LISTENS, port), 60, lambda line: True)
    child.send_signal(signal.SIGKILL)
    with pytest.raises(ModelError, match=r"small model's server .* was killed from outside"):
        group.watch(lambda: False)


def test_a_server_that_ends_or_takes_too_long(group):
    code = "print('ValueError: not today')"
    with pytest.raises(ModelError, match=r"with exit code 0; the reason is in the last ") as caught:
        group.start("small", program(code, free_port()), 60, lambda line: True)
    assert caught.value.__notes__[0].endswith("ValueError: not today")


def test_a_start_is_bounded_and_can_be_given_up(group):
    sleeps = "import time; print('loading', flush=True); time.sleep(600)"
    with pytest.raises(ModelError, match=r"not ready after 0\.5 seconds"):
        group.start("small", program(sleeps, free_port()), 0.5, lambda line: True)
    seen = []
    assert not group.start(
        "large", program(sleeps, free_port()), 60, lambda line: seen.append(line) or len(seen) < 9
    )
    assert "loading" in seen


def test_the_end_of_a_log_names_the_reason(tmp_path):
    """Whichever of vLLM's processes wrote it, before the others' tracebacks and farewells."""
    frames = ['  File "core.py", line 1, in run', "    engine = EngineCore(*args)"] * 30
    prefix = "(EngineCore pid=7) ERROR 11-30 12:20:31 [core.py:9] "
    log = tmp_path / "log"
    lines = [
        *frames,
        "NotImplementedError: not today",
        "INFO 2026-12-01 03:01:12 [utils] shutdown",
        *(prefix + line for line in frames),
        f"{prefix}Exception: see above",
        "  Value error, User-specified max_model_len (9) is greater",
        "(APIServer pid=8) INFO 11-30 12:20:31 [a.py:9] bye",
    ]
    log.write_text("\n".join(lines))
    (note,) = with_log(ModelError("."), log).__notes__
    assert note.splitlines()[1:] == [
        "NotImplementedError: not today",
        f"{prefix}Exception: see above",
        "  Value error, User-specified max_model_len (9) is greater",
    ]
    assert not hasattr(with_log(ModelError("."), tmp_path / "none"), "__notes__")


def test_a_free_port_is_found_free():
    check_port("127.0.0.1", free_port())
