"""`mai ask` and `mai check` on a pair whose models are on servers."""

import json
import subprocess
import sys

import pytest
from chat_servers import fails
from PIL import Image

KEY = "sk-not-for-your-eyes"
RUN = """
import sys
from typer.testing import CliRunner
from langgraph_mai.tools.cli import app
done = CliRunner().invoke(app, sys.argv[1:])
print(done.stdout, end="")
print(done.stderr, end="", file=sys.stderr)
assert not {"torch", "transformers", "vllm"} & set(sys.modules)
sys.exit(done.exit_code)
"""


@pytest.fixture
def pair(server, tmp_path):
    model = f"{{model: m, base_url: '{server.url}', retries: 0, timeout: 10}}"
    path = tmp_path / "pair.yaml"
    path.write_text(f"backend: server\nsmall: {model}\nlarge: {model}\n")
    return path


@pytest.fixture
def mai(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", KEY)

    def run(*arguments, code=0):
        """Run a command in a process of its own, which must not load what it does not need."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUN, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        assert KEY not in done.stdout + done.stderr
        return done

    return run


def test_a_question(mai, pair, server, tmp_path):
    picture = tmp_path / "red.png"
    Image.new("RGB", (40, 40), "red").save(picture)
    result = json.loads(mai("ask", picture, "Is it red?", "--pair", pair, "--json").stdout)
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "direct", None)
    assert [call["cached_tokens"] for call in result["calls"]] == [16, 16]
    assert all(
        request["headers"]["authorization"] == f"Bearer {KEY}" for request in server.requests
    )


def test_a_pair_that_can_be_used(mai, pair):
    checked = json.loads(mai("check", pair, "--json").stdout)
    assert checked["ok"]
    for model in checked["models"]:
        assert model["answer"] == "yes"
        # This process's memory says nothing of the server's.
        assert model["peak_memory_mb"] is None


@pytest.mark.parametrize(
    ("listing", "models", "words"),
    [
        (fails(401), ["m"], "refuses the API key"),
        (None, ["other"], "has no model 'm'"),
    ],
)
def test_a_pair_that_cannot_be_used(listing, models, words, mai, pair, server):
    server.listing, server.models = listing, models
    checked = json.loads(mai("check", pair, "--json", code=1).stdout)
    assert not checked["ok"]
    assert all(words in model["error"] for model in checked["models"])


def test_servers_that_are_down(mai, pair, server):
    server.stop()
    assert (
        "cannot be reached" in mai("ask", "Is it red?", "--no-image", "--pair", pair, code=1).stderr
    )
    server.start()
