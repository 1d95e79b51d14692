"""What `ChatServer` sends, what it makes of an answer, and what it keeps to itself."""

import asyncio
import base64
import gc
import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import langchain_tests.unit_tests
import pytest
from chat_servers import answers
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage, SystemMessage
from PIL import Image

from langgraph_mai import ChatServer, load_pair
from langgraph_mai.models.images import ImageError, block_image, image_block

TEXT = {"type": "text", "text": "Is it red?"}


class TestUnit(langchain_tests.unit_tests.ChatModelUnitTests):
    @property
    def chat_model_class(self):
        return ChatServer

    @property
    def chat_model_params(self):
        return {"model": "m", "base_url": "http://127.0.0.1:1/v1"}


def model_on(server, **settings) -> ChatServer:
    return ChatServer(**{"model": "m", "base_url": server.url, "max_retries": 0} | settings)


def sent(server) -> dict:
    return server.requests[-1]["body"]


def sent_pictures(server) -> list[bytes]:
    blocks = [block for block in sent(server)["messages"][-1]["content"] if "image_url" in block]
    uris = [block["image_url"]["url"] for block in blocks]
    assert all(uri.startswith("data:image/") for uri in uris)
    return [base64.b64decode(uri.partition(",")[2]) for uri in uris]


@pytest.fixture
def picture(tmp_path):
    """Path of a picture that needs no change on its way."""
    path = tmp_path / "red.png"
    Image.new("RGB", (120, 80), "red").save(path)
    return path


def forms(path) -> dict:
    data = base64.b64encode(path.read_bytes()).decode()
    uri = f"data:image/png;base64,{data}"
    return {
        "v1": {"type": "image", "base64": data, "mime_type": "image/png"},
        "url": {"type": "image", "url": uri},
        "openai": {"type": "image_url", "image_url": {"url": uri}},
        "plain string": {"type": "image_url", "image_url": uri},
        "path": {"type": "image_url", "image_url": str(path)},
        "file url": {"type": "image", "url": path.as_uri()},
        "anthropic": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": data},
        },
        "input_image": {"type": "input_image", "image_url": uri},
        "bytes": {"type": "image", "image": path.read_bytes()},
    }


def test_pictures_in_any_form_arrive_unchanged(server, picture):
    blocks = list(forms(picture).values())
    model_on(server).invoke([HumanMessage([*blocks, TEXT])])
    assert sent_pictures(server) == [picture.read_bytes()] * len(blocks)
    assert sent(server)["messages"][-1]["content"][-1] == TEXT


def test_a_pil_picture_and_a_turned_one_arrive_as_they_look(server, tmp_path):
    turned = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (120, 80), "red").save(turned, exif=exif)
    blocks = [
        {"type": "image", "image": Image.new("RGBA", (64, 48), (0, 0, 0, 0))},
        {"type": "image", "path": str(turned)},
    ]
    model_on(server).invoke([HumanMessage([*blocks, TEXT])])
    plain, upright = (Image.open(io.BytesIO(data)) for data in sent_pictures(server))
    assert (plain.size, plain.getpixel((0, 0))) == ((64, 48), (255, 255, 255))
    assert upright.size == (80, 120)


@pytest.mark.parametrize("limit", [400, 9600, 10**6])
def test_large_pictures_are_shrunk(limit, server, picture):
    model_on(server, max_pixels=limit).invoke([HumanMessage([image_block(str(picture)), TEXT])])
    (data,) = sent_pictures(server)
    size = Image.open(io.BytesIO(data)).size
    assert size[0] * size[1] <= limit
    assert size[0] / size[1] == pytest.approx(1.5, rel=0.1)
    if limit >= 9600:
        assert data == picture.read_bytes()


def test_a_setting_of_openai_stays(server, picture):
    url = {"url": forms(picture)["url"]["url"], "detail": "low"}
    model_on(server).invoke([HumanMessage([{"type": "image_url", "image_url": url}, TEXT])])
    assert sent(server)["messages"][-1]["content"][0]["image_url"]["detail"] == "low"


def test_pictures_of_the_web_need_leave(server):
    block = {"type": "image", "url": "http://127.0.0.1:9/red.png"}
    with pytest.raises(ImageError, match="allow_fetch=True"):
        model_on(server).invoke([HumanMessage([block])])
    with pytest.raises(ImageError, match="cannot be fetched"):
        model_on(server, allow_fetch=True).invoke([HumanMessage([block])])
    assert not server.requests


def test_the_caller_keeps_its_messages(server, picture):
    block = {"type": "image", "path": str(picture)}
    messages = [SystemMessage("You answer."), HumanMessage([block, TEXT])]
    model_on(server).invoke(messages)
    assert messages[1].content == [block, TEXT]
    assert block_image(block).size == (120, 80)
    assert sent(server)["messages"][0] == {"role": "system", "content": "You answer."}


def test_what_is_asked_for_by_default(server):
    model_on(server).invoke("?")
    body = sent(server)
    assert (body["temperature"], body["model"]) == (0.0, "m")
    assert "max_tokens" not in body


def test_settings_of_the_model_and_of_a_call(server):
    model = model_on(server, max_tokens=9, temperature=0.5, seed=3)
    model.invoke("?", stop=["."])
    assert {key: sent(server)[key] for key in ("max_tokens", "temperature", "seed", "stop")} == {
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 3,
        "stop": ["."],
    }
    model.invoke("?", max_tokens=5, temperature=0)
    assert (sent(server)["max_tokens"], sent(server)["temperature"]) == (5, 0)
    assert "timeout" not in sent(server)


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_usage_and_why_it_stopped(way, server):
    server.otherwise = answers("yes it is", finish="length")
    if way == "invoke":
        message = model_on(server).invoke("?")
    else:
        first, *rest = model_on(server).stream("?")
        message = sum(rest, first)
    assert message.text == "yes it is"
    assert message.usage_metadata["input_tokens"] == 20
    assert message.usage_metadata["output_tokens"] == 2
    assert message.usage_metadata["input_token_details"]["cache_read"] == 16
    assert message.response_metadata["finish_reason"] == "length"
    assert message.response_metadata["model_name"] == "m"


def test_one_model_serves_many_threads_and_event_loops(server):
    model = model_on(server)

    async def several():
        return [message.text for message in await model.abatch(["?"] * 20)]

    assert asyncio.run(several()) == ["yes"] * 20
    assert asyncio.run(several()) == ["yes"] * 20
    assert [message.text for message in model.batch(["?"] * 20)] == ["yes"] * 20


def test_a_model_that_is_gone_leaves_no_thread(server):
    def threads():
        return {one for one in threading.enumerate() if one.name == "langgraph-mai-server"}

    before = threads()
    model = model_on(server)
    model.invoke("?")
    (own,) = threads() - before
    del model
    gc.collect()
    own.join(15)
    assert not own.is_alive()


FOREIGN = {
    "OPENAI_API_KEY": "sk-of-another-service",
    "OPENAI_ADMIN_KEY": "sk-of-the-admin",
    "OPENAI_ORG_ID": "org-x",
    "OPENAI_ORGANIZATION": "org-y",
    "OPENAI_PROJECT_ID": "project-x",
    "OPENAI_CUSTOM_HEADERS": "X-Secret: sk-in-a-header\nAuthorization: Bearer sk-of-another",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "OPENAI_API_BASE": "http://127.0.0.1:9/v1",
    "OPENAI_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("key", [None, "sk-mine"])
def test_nothing_of_another_service_reaches_the_server(key, server, monkeypatch):
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    model = model_on(server, api_key=key, default_headers={"X-Team": "blue"})
    assert model.load().invoke("?").text == "yes"
    headers = server.requests[-1]["headers"]
    assert headers["authorization"] == f"Bearer {key or 'none'}"
    assert headers["x-team"] == "blue"
    sent_text = json.dumps(server.requests[-1])
    assert not any(word in sent_text for word in ("another", "admin", "org-", "project-x", "x-sec"))
    assert "sk-in-a-header" not in sent_text


def test_the_key_of_the_environment(server, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "sk-from-outside")
    model = model_on(server)
    model.invoke("?")
    assert server.requests[-1]["headers"]["authorization"] == "Bearer sk-from-outside"
    for text in (repr(model), str(model.asdict()), dumps(model), str(model._identifying_params)):
        assert "sk-from-outside" not in text


def test_two_servers_are_two_models(server):
    one = model_on(server)._identifying_params
    assert one != ChatServer(model="m", base_url="http://127.0.0.1:1/v1")._identifying_params
    assert one != model_on(server, max_pixels=100)._identifying_params
    assert one == model_on(server)._identifying_params


@pytest.mark.parametrize("missing", ["model", "base_url"])
def test_what_must_be_given(missing, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    given = {"model": "m", "base_url": "http://127.0.0.1:1/v1"}
    del given[missing]
    with pytest.raises(TypeError, match=f"needs `{missing}`"):
        ChatServer(**given)


def test_a_pair_file_names_servers_and_no_key(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-of-the-pair")
    model = f"{{model: m, base_url: '{server.url}', api_key_env: MY_KEY, retries: 0, timeout: 7}}"
    path = tmp_path / "pair.yaml"
    path.write_text(f"backend: server\nsmall: {model}\nlarge: {model}\n")
    pair = load_pair(path)
    assert isinstance(pair.small, ChatServer)
    assert pair.small.request_timeout == 7
    assert pair.large.load().invoke("?").text == "yes"
    assert server.requests[-1]["headers"]["authorization"] == "Bearer sk-of-the-pair"
    assert "sk-of-the-pair" not in repr(pair)


def test_the_documented_pair_file_is_one(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "servers.md"
    path = tmp_path / "my-servers.yaml"
    path.write_text(page.read_text(encoding="utf-8").split("```yaml\n")[1].partition("```")[0])
    pair = load_pair(path)
    assert str(pair.small.openai_api_base) == "http://gpu-a:8000/v1"
    assert pair.large.model_name == "Qwen/Qwen3-VL-8B-Instruct"


def test_the_package_without_langchain_openai_names_the_extra():
    code = """
import sys
sys.modules["langchain_openai"] = None
import langgraph_mai
from langgraph_mai import *
try:
    from langgraph_mai import ChatServer
except ImportError as error:
    print(error)
try:
    langgraph_mai.load_pair("demo-server")
except langgraph_mai.ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert 'pip install "langgraph-mai[server]"' in first
    assert first == second
