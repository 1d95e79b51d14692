"""What `ChatServer` makes of settings: keys, addresses, timeouts, and those that change later."""

import asyncio
import subprocess
import sys
import traceback

import httpx
import pytest
from chat_servers import answers
from langgraph.cache.memory import InMemoryCache

from langgraph_mai import ChatServer, ConfigError, ModelError, create_mai, load_pair

KEY = "sk-hunter2-of-mine"


def model_on(server, **settings) -> ChatServer:
    return ChatServer(**{"model": "m", "base_url": server.url, "max_retries": 0} | settings)


def authorization(server) -> str:
    return server.requests[-1]["headers"]["authorization"]


@pytest.fixture(params=["setting", "environment", "pair file"])
def with_key(request, server, monkeypatch, tmp_path):
    """Makes a model with a key from each of the places where keys are read."""

    def make(key):
        if request.param == "setting":
            return model_on(server, api_key=key)
        if request.param == "environment":
            monkeypatch.setenv("VLLM_API_KEY", key)
            return model_on(server)
        monkeypatch.setenv("MY_KEY", key)
        model = f"{{model: m, base_url: '{server.url}', api_key_env: MY_KEY, retries: 0}}"
        path = tmp_path / "pair.yaml"
        path.write_text(f"backend: server\nsmall: {model}\nlarge: {model}\n")
        return load_pair(path).small

    return make


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", "{}\r", " {} ", "\t{}"])
def test_spaces_and_line_ends_around_a_key_are_left_out(around, with_key, server):
    assert with_key(around.format(KEY)).invoke("?").text == "yes"
    assert authorization(server) == f"Bearer {KEY}"


@pytest.mark.parametrize("blank", [" ", "\r\n"])
def test_a_blank_key_is_none(blank, with_key, server):
    with_key(blank).invoke("?")
    assert authorization(server) == "Bearer none"


@pytest.mark.parametrize("within", ["\u00e9", "\r\n", "\n", "\x7f", "\u2013", "\ufeff"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(within, with_key):
    with pytest.raises((ModelError, ConfigError), match=r"API key in .* is malformed") as error:
        with_key(f"{KEY[:8]}{within}{KEY[8:]}")
    shown = "".join(traceback.format_exception(error.value))
    assert KEY[:8] not in shown
    assert KEY[8:] not in shown


def test_a_key_that_is_a_function_is_refused(server):
    with pytest.raises(ModelError, match="call it and give its result"):
        model_on(server, api_key=lambda: KEY)


def test_a_header_that_cannot_be_sent_is_refused_and_not_shown(server):
    with pytest.raises(ModelError, match="'X-Token' in default_headers is malformed") as error:
        model_on(server, default_headers={"X-Token": f"{KEY}\nX-Other: 1"})
    assert KEY not in "".join(traceback.format_exception(error.value))
    model_on(server, default_headers={"X-Token": f"{KEY}\n"}).invoke("?")
    assert server.requests[-1]["headers"]["x-token"] == KEY


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "ftp://host/v1",
        "http://h:abc/v1",
        "http://h:99999/v1",
        "http://h o/v1",
        "http://[::1/v1",
        f"http://user:{KEY}@h/v1",
        f"http://{KEY}@h/v1",
        f"http://h/v1?api_key={KEY}",
    ],
)
def test_an_address_that_cannot_be_one_is_refused_at_once(address, server):
    for make in (
        lambda: ChatServer(model="m", base_url=address),
        lambda: model_on(server).model_copy(update={"openai_api_base": address}).invoke("?"),
    ):
        with pytest.raises(ModelError, match="The base_url of a ChatServer must") as error:
            make()
        assert KEY not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("around", ["{}/", "{}//", " {}", "{}\n"])
def test_an_address_is_one_however_it_is_written(around, server):
    other = model_on(server, base_url=around.format(server.url))
    assert other._identifying_params == model_on(server)._identifying_params
    assert other.invoke("?").text == "yes"


@pytest.mark.parametrize(
    "timeout", [float("inf"), float("nan"), 1e10, 0, -1, True, "5", "soon", httpx.Timeout(5), [1]]
)
@pytest.mark.parametrize("of", ["call", "model"])
def test_a_timeout_that_is_none_is_refused(timeout, of, server):
    model = model_on(server)
    settings = {"timeout": timeout}
    if of == "model":
        model, settings = model.model_copy(update=settings), {}
    for ask in (model.invoke, lambda *a, **k: asyncio.run(model.ainvoke(*a, **k))):
        with pytest.raises(ValueError, match="timeout must be more than 0 seconds"):
            ask("?", **settings)
    assert not server.requests


def test_a_timeout_of_years_is_one(server):
    assert model_on(server).invoke("?", timeout=9e9).text == "yes"


def test_a_copy_with_another_address_asks_there(server):
    first = model_on(server)
    first.invoke("?")
    for name in ("base_url", "openai_api_base"):
        elsewhere = first.model_copy(update={name: "http://127.0.0.1:1/v1"})
        with pytest.raises(ModelError, match=r"127\.0\.0\.1:1/v1 cannot be reached"):
            elsewhere.invoke("?")
    assert first.invoke("?").text == "yes"
    assert len(server.requests) == 2


def test_settings_that_change_later_are_used(server):
    model = model_on(server, api_key=KEY)
    model.invoke("?")
    model.openai_api_key = "sk-another"
    model.invoke("?")
    assert authorization(server) == "Bearer sk-another"
    model.model_copy(update={"default_headers": {"X-Team": "blue"}}).invoke("?")
    assert server.requests[-1]["headers"]["x-team"] == "blue"
    model.invoke("?")
    assert "x-team" not in server.requests[-1]["headers"]


def test_models_may_share_the_callers_own_http_client(server):
    mine = httpx.AsyncClient(headers={"X-Mine": "1"})
    for _ in range(2):
        models = [model_on(server, http_async_client=mine) for _ in range(2)]
        for model in models:
            assert [answer.text for answer in model.batch(["?"] * 3)] == ["yes"] * 3
            assert asyncio.run(model.ainvoke("?")).text == "yes"
        del models, model
    assert {request["headers"]["x-mine"] for request in server.requests} == {"1"}
    assert not mine.is_closed
    asyncio.run(mine.aclose())


@pytest.mark.parametrize(
    "setting",
    [
        {"http_client": object()},
        {"organization": "org-x"},
        {"http_socket_options": [(6, 1, 1)]},
    ],
)
def test_a_setting_without_effect_is_refused(setting, server):
    with pytest.raises(TypeError, match=f"does not use {next(iter(setting))}; give"):
        model_on(server, **setting)


@pytest.mark.parametrize("name", ["default_headers", "default_query"])
def test_what_is_sent_besides_tells_calls_apart_and_is_not_shown(name, server):
    cache = InMemoryCache()

    def ask(**settings):
        model = model_on(server, **settings)
        create_mai(model, model, prompts="demo", cache=cache).invoke({"question": "Is it?"})
        return len(server.requests), str(model._identifying_params)

    server.otherwise = answers("yes")
    plain, _ = ask()
    first, shown = ask(**{name: {"x-version": KEY}})
    assert first > plain
    assert KEY not in shown
    assert ask(**{name: {"x-version": KEY}})[0] == first
    assert ask(**{name: {"x-version": "other"}})[0] > first


FORK = """
import os, sys
from langgraph_mai import ChatServer
model = ChatServer(model="m", base_url=sys.argv[1], max_retries=0)
print(model.invoke("?").text, flush=True)
if os.fork() == 0:
    status = 1
    try:
        print(model.invoke("?", timeout=60).text, flush=True)
        print("".join(piece.text for piece in model.stream("?", timeout=60)), flush=True)
        model.openai_api_key = "another"
        print(model.invoke("?", timeout=60).text, flush=True)
        status = 0
    finally:
        os._exit(status)
print(os.wait()[1], model.invoke("?").text, flush=True)
"""


def test_a_forked_child_asks_by_itself(server):
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, server.url],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["yes", "yes", "yes", "yes", "0", "yes"]
