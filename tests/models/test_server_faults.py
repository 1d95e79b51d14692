"""What a caller sees when a server misbehaves: one sentence that names it and says what to do."""

import asyncio
import logging
import time
import traceback

import pytest
from chat_servers import (
    answers,
    dies_before,
    dies_halfway,
    fails,
    fails_at_once,
    fails_halfway,
    hangs,
    has_context,
    page,
    replies,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import ChatServer, ModelError, image_reference
from langgraph_mai.models.errors import CallTimeoutError, ContextLengthError, UnreachableError
from langgraph_mai.models.images import image_block

KEY = "sk-not-for-your-eyes"
CONTEXT = "This model's maximum context length is 50 tokens."


def model_on(server, **settings) -> ChatServer:
    given = {"model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 1}
    return ChatServer(**given | settings)


def said(error: pytest.ExceptionInfo, server, *, kind: type = ModelError) -> str:
    """The message of an error, once it is known to be one sentence with an address and a cause."""
    message = str(error.value)
    assert type(error.value) is kind
    assert server.url in message
    assert message.endswith(".")
    assert "\n" not in message
    assert error.value.__cause__ is not None
    assert KEY not in "".join(traceback.format_exception(error.value))
    return message


@pytest.mark.parametrize("fault", [fails(500), fails(503), dies_before])
def test_what_fails_once_is_asked_again(fault, server, ask):
    server.script.append(fault)
    assert ask(model_on(server)) == "yes"
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_always_fails(status, server, ask):
    server.otherwise = fails(status, "EngineCore died")
    with pytest.raises(ModelError) as error:
        ask(model_on(server))
    message = said(error, server, kind=UnreachableError)
    assert f"status {status}: EngineCore died" in message
    assert "see its log" in message
    assert len(server.requests) == 2


def test_a_server_that_hangs_is_left_after_the_timeout(server, ask):
    server.otherwise = hangs
    start = time.perf_counter()
    with pytest.raises(TimeoutError) as error:
        ask(model_on(server, timeout=0.3))
    assert time.perf_counter() - start < 15
    assert "within the timeout of 0.3 seconds" in said(error, server, kind=CallTimeoutError)
    assert server.hung_up.wait(15)  # it need not go on computing


def test_a_call_may_have_a_timeout_of_its_own(server, ask):
    server.otherwise = hangs
    with pytest.raises(CallTimeoutError, match=r"0\.2 seconds"):
        ask(model_on(server, timeout=600), timeout=0.2)


def test_the_timeout_covers_the_tries_together(server, ask):
    server.otherwise = fails(500)
    start = time.perf_counter()
    with pytest.raises(CallTimeoutError):
        ask(model_on(server, max_retries=100, timeout=1))
    assert time.perf_counter() - start < 15


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_that_no_call_could_meet_is_refused(timeout, server, ask):
    with pytest.raises(ValueError, match="more than 0 seconds"):
        ask(model_on(server), timeout=timeout)


def test_nobody_listens_and_then_somebody_does(server, ask):
    model = model_on(server)
    assert ask(model) == "yes"
    server.stop()
    with pytest.raises(ModelError) as error:
        ask(model)
    message = said(error, server, kind=UnreachableError)
    assert "cannot be reached" in message
    assert "start it, or correct its address" in message
    server.start()
    assert ask(model) == "yes"


def test_an_address_that_does_not_exist(ask):
    model = ChatServer(model="m", base_url="http://nowhere.invalid/v1", max_retries=0)
    with pytest.raises(UnreachableError, match=r"http://nowhere\.invalid/v1 cannot be reached"):
        ask(model)


@pytest.mark.parametrize("fault", [dies_halfway, fails_halfway])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_stream_that_breaks_off(fault, way, server):
    server.otherwise = fault
    pieces = []

    def read():
        for piece in model_on(server).stream("Is it red?"):
            pieces.append(piece.text)  # noqa: PERF401  what came before the error counts

    async def aread():
        async for piece in model_on(server).astream("Is it red?"):
            pieces.append(piece.text)  # noqa: PERF401

    with pytest.raises(UnreachableError, match="broke off its answer") as error:
        read() if way == "stream" else asyncio.run(aread())
    assert server.url in str(error.value)
    # What was said cannot be unsaid: nothing is asked again.
    assert len(server.requests) == 1
    assert pieces[0] == "It "


def test_a_failure_instead_of_an_answer(server, ask):
    server.otherwise = fails_at_once
    with pytest.raises(UnreachableError, match="EngineCore died"):
        ask(model_on(server, max_retries=0))


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_an_answer_that_breaks_off(way, server):
    server.otherwise = dies_halfway
    model = model_on(server)
    with pytest.raises(UnreachableError, match="broke off its answer"):
        model.invoke("?") if way == "invoke" else asyncio.run(model.ainvoke("?"))


@pytest.mark.parametrize(
    "fault",
    [page, replies({"hello": 1}), replies({"choices": None}), replies({"choices": []})],
    ids=["page", "other", "null", "empty"],
)
def test_an_answer_that_is_no_chat_completion(fault, server, ask):
    server.otherwise = fault
    with pytest.raises(ModelError) as error:
        ask(model_on(server))
    assert "no chat completion" in str(error.value)
    assert "usually ends in /v1" in str(error.value)
    assert server.url in str(error.value)


def test_a_page_is_called_one(server):
    server.otherwise = page
    with pytest.raises(ModelError, match=r"\(a web page\)"):
        model_on(server).invoke("?")


def test_an_address_without_its_end(server, ask):
    server_root = server.url.removesuffix("/v1")
    model = model_on(server, base_url=server_root)
    with pytest.raises(ModelError, match="no OpenAI-compatible API") as error:
        ask(model)
    assert "ends in /v1" in str(error.value)
    with pytest.raises(ModelError, match="no OpenAI-compatible API"):
        model.load()


def test_a_model_that_the_server_does_not_have(server, ask):
    server.models = ["qwen", "internvl"]
    with pytest.raises(ModelError) as error:
        ask(model_on(server))
    assert "has no model 'm'" in said(error, server)
    assert str(error.value).endswith("'qwen', 'internvl'.")


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused(status, server, ask):
    server.otherwise = fails(status, f"Incorrect API key provided: {KEY}")
    with pytest.raises(ModelError) as error:
        ask(model_on(server))
    message = said(error, server)
    assert f"refuses the API key (status {status})" in message
    assert "environment variable" in message


def test_a_server_that_repeats_the_key(server, ask, caplog):
    caplog.set_level(logging.DEBUG)
    server.otherwise = fails(500, f"no idea what {KEY} is")
    model = model_on(server)
    with pytest.raises(ModelError) as error:
        ask(model)
    assert "no idea what *** is" in said(error, server, kind=UnreachableError)
    for text in (repr(model), str(model), repr(model._identifying_params), caplog.text):
        assert KEY not in text


@pytest.mark.parametrize(
    ("message", "limit", "length"),
    [
        (f"{CONTEXT} However, your prompt contains 430 input tokens.", 50, 430),
        (
            "The decoder prompt (length 430) is longer than the maximum model length of 400.",
            400,
            430,
        ),
        ("request (430 tokens) exceeds the available context size (400 tokens)", 400, 430),
        ("Your input exceeds the context window of this model.", None, None),
    ],
)
def test_a_prompt_that_is_too_long(message, limit, length, server, ask):
    server.otherwise = fails(400, message)
    with pytest.raises(ContextOverflowError) as error:
        ask(model_on(server))
    text = said(error, server, kind=ContextLengthError)
    assert (error.value.limit, error.value.length) == (limit, length)
    assert limit is None or f"takes at most {limit}, answer included" in text
    assert len(server.requests) == 1


TOO_MUCH = [
    f"{CONTEXT} However, you requested 120 tokens (20 in the messages, 100 in the completion).",
    f"'max_tokens' is too large: 100. {CONTEXT[:-1]} and your request has 20 input tokens.",
]


@pytest.mark.parametrize("message", TOO_MUCH)
def test_an_answer_without_room_is_asked_for_shorter(message, server, ask):
    server.script.append(fails(400, message))
    assert ask(model_on(server), max_tokens=100) == "yes"
    assert [request["body"]["max_tokens"] for request in server.requests] == [100, 30]


def test_an_answer_longer_than_the_context_is_asked_for_shorter(server, ask):
    server.script.extend(
        [
            fails(400, "max_tokens=900 cannot be greater than max_model_len=50."),
            fails(400, TOO_MUCH[0]),
        ]
    )
    assert ask(model_on(server, max_tokens=900)) == "yes"
    assert [request["body"]["max_tokens"] for request in server.requests] == [900, 50, 30]


def test_a_prompt_without_any_room_is_asked_once(server, ask):
    server.otherwise = has_context(3, answers("yes"))
    with pytest.raises(ContextLengthError):
        ask(model_on(server), "one two three four", max_tokens=100)
    assert len(server.requests) == 1


def test_an_overloaded_server_says_when_to_come_back(server, ask):
    server.script.append(fails(429, "too many requests", Retry_After="0.05"))
    assert ask(model_on(server)) == "yes"
    assert len(server.requests) == 2
    server.otherwise = fails(429, "too many requests", Retry_After="0.05")
    with pytest.raises(UnreachableError, match="too much to do"):
        ask(model_on(server))


def test_pictures_that_the_model_does_not_take(server, ask):
    block = image_block(image_reference(Image.new("RGB", (40, 40), "red")))
    server.otherwise = fails(400, "At most 1 image(s) may be provided in one prompt.")
    with pytest.raises(ModelError) as error:
        ask(model_on(server), [HumanMessage([block, block, {"type": "text", "text": "Same?"}])])
    message = said(error, server)
    assert "At most 1 image(s)" in message
    assert "the prompt holds 2 of them" in message


def test_what_else_is_refused_is_quoted(server, ask):
    server.otherwise = fails(400, "temperature must be non-negative, got -4.0.")
    with pytest.raises(ModelError) as error:
        ask(model_on(server))
    assert "temperature must be non-negative, got -4.0)" in said(error, server)


async def test_a_cancelled_call_ends_on_the_server(server):
    server.otherwise = hangs
    call = asyncio.create_task(model_on(server).ainvoke("?"))
    while not server.requests:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(server.hung_up.wait, 15)


def test_a_stream_that_nobody_reads_on(server):
    server.otherwise = answers("one two three")
    pieces = model_on(server).stream("?")
    assert next(pieces).text == "one "
    pieces.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (fails(401), "refuses the API key"),
        (page, "no chat completion"),
        (replies({"hello": 1}), "no chat completion"),
    ],
)
def test_loading_reports_what_is_wrong(fault, words, server):
    server.listing = fault
    with pytest.raises(ModelError, match=words):
        model_on(server).load()


def test_loading_finds_the_model_or_names_those_there_are(server):
    model = model_on(server)
    assert model.load() is model
    with pytest.raises(ModelError, match=r"has no model 'other'; .*'m'"):
        model_on(server, model="other").load()
    server.stop()
    with pytest.raises(UnreachableError, match="cannot be reached"):
        model.load()
    server.start()


def test_loading_waits_for_no_server_that_hangs(server, monkeypatch):
    server.listing = hangs
    with pytest.raises(CallTimeoutError):
        model_on(server, timeout=0.2).load()
    monkeypatch.setattr("langgraph_mai.models.server.LIST_SECONDS", 0.2)
    with pytest.raises(UnreachableError, match="does not answer"):
        model_on(server, max_retries=0).load()
