"""What the tests of graphs share."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from processes import free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["memory", "sqlite"])
def checkpointer(request, tmp_path):
    """Keeps threads in memory, or in a file."""
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            yield saver


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The URL of a `langgraph dev` process, offline and without a key."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "demo").symlink_to(ROOT / "demo")  # the folder that is open for images
    url = f"http://127.0.0.1:{(port := free_port())}"
    secrets = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGGRAPH_MAI_PLANNER")
    environment = {name: value for name, value in os.environ.items() if name not in secrets}
    # Nothing outside this machine can be reached.
    environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment |= {"NO_PROXY": "127.0.0.1", "LANGGRAPH_MAI_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    options = ["--config", str(ROOT / "langgraph.json"), "--port", str(port)]
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *options, "--n-jobs-per-worker", "4"],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_for(url, process, log)
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert "BlockingError" not in log.read_text()


def wait_for(url, process, log):
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/ok").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    pytest.fail(f"The server did not start:\n{log.read_text()[-3000:]}")
