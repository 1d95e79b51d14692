"""`mai serve`: the demo pair as a process, and clients that others wrote."""

import base64
import contextlib
import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from processes import MaiServe, free_port
from typer.testing import CliRunner

from langgraph_mai import create_mai, load_pair
from langgraph_mai.models.images import load_image
from langgraph_mai.tools.cli import app

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ASKED = [
    ("chart.png", "What is the sum of the red value and the green value?"),
    ("squares.png", "How many squares can you see in the picture?"),
]


@pytest.fixture(scope="module")
def address():
    """Where the demo pair is served."""
    port = free_port()
    mai = MaiServe("demo", "--port", str(port))
    mai.wait_until_ready()
    yield f"http://127.0.0.1:{port}/v1"
    mai.send(signal.SIGTERM)
    code, out, _ = mai.outcome()
    mai.end()
    assert (code, out) == (0, "")


@pytest.mark.parametrize(("picture", "question"), ASKED)
def test_clients_of_others_get_the_answers_of_the_graph(address, picture, question, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    path = ROOT / "demo" / "pictures" / picture
    pair = load_pair("demo")
    own = create_mai(pair.small, pair.large, prompts=pair.prompts).invoke(
        {"question": question, "images": [str(path)]}
    )
    uri = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    content = [
        {"type": "image_url", "image_url": {"url": uri}},
        {"type": "text", "text": question},
    ]
    asked = {"model": "mai", "messages": [{"role": "user", "content": content}]}
    with openai.OpenAI(base_url=address, api_key="none") as client:
        whole = client.chat.completions.create(**asked)
        assert whole.choices[0].message.content == own["answer"]
        texts = [call["text"] for call in whole.model_extra["mai"]["calls"]]
        assert texts == [call["text"] for call in own["calls"]]
        usage = {"include_usage": True}
        with client.chat.completions.create(**asked, stream=True, stream_options=usage) as stream:
            chunks = list(stream)
        answer = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert answer == own["answer"]
        assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
        with pytest.raises(openai.BadRequestError, match="one answer"):
            client.chat.completions.create(**asked, n=2)
    model = ChatOpenAI(model="mai", base_url=address, api_key="none")
    message = HumanMessage([load_image(str(path)).block, {"type": "text", "text": question}])
    reply = model.invoke([message])
    assert reply.text == own["answer"]
    summed = own["messages"][-1].usage_metadata
    assert reply.usage_metadata["output_tokens"] == summed["output_tokens"]


def test_the_command_of_the_readme_streams_a_reasoning_and_its_answer(address):
    (command,) = re.findall(r"^curl .+$", README, re.MULTILINE)
    command = command.replace("http://127.0.0.1:8000/v1", address)
    done = subprocess.run(
        ["bash", "-c", f"{command} --noproxy '*' -sS"], cwd=ROOT, capture_output=True, check=True
    )
    lines = done.stdout.decode().split("\n\n")
    chunks = [
        json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")
    ]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "Answer: 3" in "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert deltas[-2] == {"content": "4"}
    assert chunks[-1]["mai"]["route"] == "transferred"


def test_headers_are_bounded(address):
    place = httpx.URL(address)
    with socket.create_connection((place.host, place.port), timeout=20) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000)
        with contextlib.suppress(ConnectionError):
            assert b"400 Bad Request" in client.recv(9999)


REFUSED = [
    (["--host", "0.0.0.0"], "name its variable with --api-key-env, or add --no-auth."),
    (["--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY holds no key"),
    (["--only", "small"], "--only is for `mai serve` with --models"),
    (["--models", "--queue", "3"], "--queue is for `mai serve` without --models"),
    (["demoo"], "There is no pair 'demoo'; did you mean 'demo'?"),
    (["--host", "no host"], "without a key"),
    (["--host", "no host", "--no-auth"], "There is no address 'no host'"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_what_cannot_be_served_is_one_sentence(words, sentence):
    result = CliRunner().invoke(app, ["serve", *words])
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
