"""What a caller sees when a server misbehaves: one sentence that names it and says what to do."""

import asyncio
import json
import logging
import time
import traceback

import httpx
import pytest
from chat_servers import (
    answers,
    chunk,
    completion,
    dies_before,
    dies_halfway,
    fails,
    fails_at_once,
    fails_halfway,
    hangs,
    has_context,
    page,
    replies,
    sends,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import ChatServer, ModelError
from langgraph_mai.models.errors import CallTimeoutError, ContextLengthError, UnreachableError

KEY = "sk-not-for-your-eyes"
CONTEXT = "This model's maximum context length is 50 tokens."


def model_on(server, **settings) -> ChatServer:
    given = {"model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 1}
    return ChatServer(**given | settings)


def sentence(error: pytest.ExceptionInfo, server, *, kind: type = ModelError) -> str:
    """The message of an error, once it is known to be one sentence with an address and no key."""
    message = str(error.value)
    assert type(error.value) is kind
    assert server.url in message
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 600
    assert KEY not in "".join(traceback.format_exception(error.value))
    return message


def test_what_fails_once_is_sent_again(server, ask):
    for fault in (fails(500), fails(503), fails(429, Retry_After="0.05"), dies_before):
        server.script.append(fault)
        server.requests.clear()
        assert ask(model_on(server)) == "yes"
        assert len(server.requests) == 2


BLOCK = {"type": "image", "image": Image.new("RGB", (40, 40), "red")}
TWO_IMAGES = [HumanMessage([BLOCK, BLOCK, {"type": "text", "text": "Same?"}])]
FAILURES = [
    (fails(500, "EngineCore died"), UnreachableError, "(status 500: EngineCore died); see its log"),
    (fails(503), UnreachableError, "failure of its own (status 503"),
    (fails(429, Retry_After="0.05"), UnreachableError, "too much to do"),
    (dies_before, UnreachableError, "broke off its answer"),
    (fails_at_once, UnreachableError, "EngineCore died"),
    (fails(401, f"Incorrect key: {KEY}"), ModelError, "refuses the API key (status 401)"),
    (fails(403), ModelError, "environment variable that api_key_env names"),
    (fails(500, f"no idea what {KEY} is"), UnreachableError, "no idea what *** is"),
    (page, ModelError, "no chat completion ("),
    (replies({"hello": 1}), ModelError, "usually ends in /v1"),
    (replies({"choices": None}), ModelError, "no chat completion"),
    (replies({"choices": []}), ModelError, "no chat completion"),
    (fails(400, "temperature must be, got -4.0."), ModelError, "got -4.0); change what"),
    (fails(400, "max_tokens must be at least 1, got 0."), ModelError, "change what it names"),
    (fails(400, "At most 1 image(s) may be provided."), ModelError, "the prompt holds 2 of them"),
    (fails(413, "too large"), ModelError, "set max_pixels to shrink the images"),
]


def test_each_failure_is_one_sentence(server, ask, caplog):
    caplog.set_level(logging.DEBUG)
    model = model_on(server, max_retries=0)
    for server.otherwise, kind, words in FAILURES:
        with pytest.raises(ModelError) as error:
            ask(model, TWO_IMAGES)
        assert words in sentence(error, server, kind=kind)
    server.requests.clear()
    for text in ("half \ud800", [HumanMessage([{"type": "text", "text": "\udfff"}])]):
        with pytest.raises(ModelError, match=r"holds half a character \('\\ud"):
            ask(model, text)
    assert not server.requests
    assert KEY not in caplog.text


def test_the_timeout_ends_a_call_and_covers_its_retries(server, ask):
    server.otherwise = hangs
    for settings, own in (({"timeout": 0.3}, {}), ({"timeout": 600}, {"timeout": 0.3})):
        server.hung_up.clear()
        server.requests.clear()
        start = time.perf_counter()
        with pytest.raises(TimeoutError) as error:
            ask(model_on(server, **settings), **own)
        assert time.perf_counter() - start < 15
        assert "within the timeout of 0.3 seconds" in sentence(error, server, kind=CallTimeoutError)
        assert not server.requests or server.hung_up.wait(15)  # it need not go on computing
    server.otherwise = fails(500)
    with pytest.raises(CallTimeoutError):
        ask(model_on(server, max_retries=100, timeout=1))


async def test_a_cancelled_call_ends_on_the_server(server):
    server.otherwise = hangs
    call = asyncio.create_task(model_on(server).ainvoke("?"))
    while not server.requests:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(server.hung_up.wait, 15)


def test_a_timeout_that_is_none_is_refused(server, ask):
    for timeout in (float("inf"), float("nan"), 0, -1, True, "5", "soon", httpx.Timeout(5), [1]):
        for model, own in (
            (model_on(server).model_copy(update={"timeout": timeout}), {}),
            (model_on(server), {"timeout": timeout}),
        ):
            with pytest.raises(ValueError, match="number of seconds above 0"):
                ask(model, **own)
    assert not server.requests


def test_nobody_listens_and_then_somebody_does(server, ask):
    model = model_on(server)
    assert ask(model) == "yes"
    server.stop()
    for call in (lambda: ask(model), model.load):
        with pytest.raises(ModelError) as error:
            call()
        message = sentence(error, server, kind=UnreachableError)
        assert "cannot be reached" in message
        assert "start it, or correct its address" in message
    server.start()
    assert ask(model) == "yes"
    nowhere = ChatServer(model="m", base_url="http://nowhere.invalid/v1", max_retries=0)
    with pytest.raises(UnreachableError, match=r"http://nowhere\.invalid/v1 cannot be reached"):
        ask(nowhere)


async def read(model, pieces):
    async for piece in model.astream("Is it red?"):
        pieces.append(piece.text)


def read_blocking(model, pieces):
    for piece in model.stream("Is it red?"):
        pieces.append(piece.text)


READERS = [read_blocking, lambda model, pieces: asyncio.run(read(model, pieces))]


def test_a_stream_that_breaks_off_or_that_nobody_reads_on(server):
    for server.otherwise in (dies_halfway, fails_halfway):
        for reader in READERS:
            pieces = []
            server.requests.clear()
            with pytest.raises(UnreachableError, match="broke off its answer") as error:
                reader(model_on(server), pieces)
            assert server.url in str(error.value)
            # What was passed on cannot be taken back: nothing is requested again.
            assert len(server.requests) == 1
            assert pieces[0] == "It "
    server.otherwise = answers("one two three")
    stream = model_on(server).stream("?")
    assert next(stream).text == "one "
    stream.close()
    assert model_on(server).invoke("?").text == "one two three"


def test_an_address_or_a_model_that_the_server_does_not_have(server, ask):
    wrong = model_on(server, base_url=server.url.removesuffix("/v1"))
    for call in (lambda: ask(wrong), wrong.load):
        with pytest.raises(ModelError, match=r"no OpenAI-compatible API .* ends in /v1"):
            call()
    server.models = ["qwen", "internvl"]
    for call in (lambda: ask(model_on(server)), model_on(server).load):
        with pytest.raises(ModelError) as error:
            call()
        assert "has no model 'm'" in sentence(error, server)
        assert str(error.value).endswith("'qwen', 'internvl'.")


def test_loading_reports_what_is_wrong(server, monkeypatch):
    assert model_on(server).load().model_name == "m"
    for server.listing, timeout, kind, words in (
        (fails(401), None, ModelError, "refuses the API key"),
        (page, None, ModelError, "no chat completion"),
        (replies({"hello": 1}), None, ModelError, "no chat completion"),
        (hangs, 1, CallTimeoutError, "within the timeout"),
    ):
        with pytest.raises(ModelError) as error:
            model_on(server, timeout=timeout).load()
        assert words in sentence(error, server, kind=kind)
    monkeypatch.setattr("langgraph_mai.models.server.CONNECT_SECONDS", 1.0)
    with pytest.raises(UnreachableError, match="does not answer"):
        model_on(server, max_retries=0).load()


OVERFLOWS = {
    "vLLM": "This model's maximum context length is 400 tokens. However, your prompt contains "
    "430 input tokens, which exceeds this limit even without any output tokens.",
    "vLLM, images": "The decoder prompt (length 430) is longer than the maximum model length of "
    "400. Make sure that `max_model_len` is no smaller than the number of text tokens plus "
    "multimodal tokens.",
    "vLLM, a full context": "The decoder prompt (length 430) plus the number of requested output "
    "tokens (at least 1) is longer than the maximum model length of 400.",
    "vLLM, before": "Input length (430) exceeds model's maximum context length (400).",
    "vLLM, long before": "This model's maximum context length is 400 tokens. However, you "
    "requested 99 tokens (430 in the messages, 7 in the completion).",
    "SGLang": "The input (430 tokens) is longer than the model's context length (400 tokens).",
    "SGLang, both": "Requested token count exceeds the model's maximum context length of 400 "
    "tokens. You requested a total of 9 tokens: 430 tokens from the input messages and 5 tokens "
    "for the completion.",
    "llama.cpp": "request (430 tokens) exceeds the available context size (400 tokens), try "
    "increasing it",
    "OpenAI": "This model's maximum context length is 400 tokens. However, your messages resulted "
    "in 430 tokens. Please reduce the length of the messages.",
}
# Numbers that are not there are not made up.
PARTLY = "This model's maximum context length is 400 tokens. However, your prompt contains "
LENGTHS = [
    *((message, 400, 430) for message in OVERFLOWS.values()),
    (PARTLY + "at least 401 input tokens.", 400, None),
    (PARTLY + "63050 characters (more than 6400 for 400 tokens).", 400, None),
    ("Your input exceeds the context window of this model.", None, None),
]


def test_a_prompt_that_is_too_long(server, ask):
    for message, limit, length in LENGTHS:
        server.requests.clear()
        server.otherwise = fails(400, message)
        with pytest.raises(ContextOverflowError) as error:
            ask(model_on(server))
        text = sentence(error, server, kind=ContextLengthError)
        assert (error.value.limit, error.value.length) == (limit, length)
        assert limit is None or f"takes at most {limit}, answer included" in text
        assert len(server.requests) == 1
    server.otherwise = has_context(3, answers("yes"))
    with pytest.raises(ContextLengthError):
        ask(model_on(server), "one two three four", max_tokens=100)
    assert len(server.requests) == 2


def test_an_answer_that_does_not_fit_is_requested_shorter(server, ask):
    too_much = f"{CONTEXT} However, you requested 120 tokens (20 in the messages, 100 in the"
    large = f"'max_tokens' is too large: 100. {CONTEXT[:-1]} and your request has 20 input tokens"
    at_all = "max_tokens=900 cannot be greater than max_model_len=50."
    for messages, limits in (
        ([too_much], [100, 30]),
        ([large], [100, 30]),
        ([at_all, too_much], [900, 50, 30]),
    ):
        server.requests.clear()
        server.script.extend(fails(400, message) for message in messages)
        assert ask(model_on(server), max_tokens=limits[0]) == "yes"
        assert [request["body"]["max_tokens"] for request in server.requests] == limits


def test_servers_that_know_no_log_probabilities_answer_without(server, ask):
    for status, message in (
        (400, "logprobs is not supported with this model"),
        (422, "Unsupported parameter: 'top_logprobs'"),
    ):
        server.requests.clear()
        server.script.extend([fails(status, message), answers("yes")])
        assert ask(model_on(server), logprobs=True, top_logprobs=2) == "yes"
        first, second = (request["body"] for request in server.requests)
        assert first["logprobs"] is True
        assert {"logprobs", "top_logprobs"}.isdisjoint(second)


def whole(message: object, **more: object) -> str:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(completion(choice) | more)


def delta(value: object) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": value, "finish_reason": "stop"}]})


YES = {"role": "assistant", "content": "yes"}
BROKEN = ["[" * 100_000 + "]" * 100_000, '{"choices": ' + "9" * 6000 + "}", b'{"id": "\xff"}']
BODIES = [
    *map(json.dumps, [None, 5, "x", [1], {"choices": ["x"]}, {"choices": [{}]}]),
    whole("hello"),
    *(whole(YES | {"content": content}) for content in (5, [1, None])),
    *(whole(YES | {"tool_calls": calls}) for calls in (5, [5])),
    whole(YES, usage="x"),
    whole(YES, usage={"prompt_tokens": "1", "completion_tokens": 1}),
    "",
    '{"a":',
    *BROKEN,
]
EVENTS = [
    *map(json.dumps, [None, [], "x", 4, {"choices": 5}, {"choices": ["x"]}]),
    *map(delta, ["abc", 5, {"content": 5}, {"content": [1]}, {"tool_calls": [5]}]),
    json.dumps({"choices": [], "usage": "x"}),
    json.dumps({"choices": [], "usage": {"prompt_tokens": "1"}}),
    "{",
    *BROKEN,
]


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


# Whether pydantic's warnings about such bodies are errors must make no difference.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_nonsense_instead_of_an_answer(server):
    model = model_on(server, max_retries=0)
    for body in BODIES:
        server.otherwise = server.listing = sends(as_bytes(body))
        for call in (model.invoke, lambda text: asyncio.run(model.ainvoke(text))):
            with pytest.raises(ModelError, match="no chat completion") as error:
                call("?")
            sentence(error, server)
        with pytest.raises(ModelError, match=r"no chat completion|has no model"):
            model.load()


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_nonsense_in_a_stream(server):
    model = model_on(server, max_retries=0)
    for event in EVENTS:
        for begun, reader in zip((False, True), READERS, strict=True):
            events = [json.dumps(chunk("yes"))] * begun + [event, "[DONE]"]
            data = b"".join(b"data: " + as_bytes(one) + b"\n\n" for one in events)
            server.otherwise = sends(data, "text/event-stream")
            server.requests.clear()
            with pytest.raises(ModelError, match="no chat completion") as error:
                reader(model, [])
            sentence(error, server)
            assert len(server.requests) == 1


def test_a_key_is_hidden_and_nothing_else(server):
    message = "The null model e1 of 10 is true to its name."
    for key in ("1", "e", "null", "sk-abc", 'quo"ted\\key"', "it's\\a'key", KEY):
        model = model_on(server, api_key=key, max_retries=0)
        for status in (400, 500, 200):
            error = {"message": message, "code": status, "param": None, "stream": True}
            error = {"error": error | {f"Bearer {key}": [{"sent": f"Bearer {key}"}]}}

            def behave(handler, _, status=status, error=error):
                return handler.events([error]) if status == 200 else handler.reply(status, error)

            server.otherwise = behave
            for call in (model.invoke, lambda text, model=model: list(model.stream(text))):
                with pytest.raises(ModelError) as raised:
                    call("?")
                shown = "".join(traceback.format_exception(raised.value))
                for form in (key, repr(key)[1:-1], json.dumps(key)[1:-1]):
                    assert f"Bearer {form}" not in shown
                assert status == 200 or "model e1 of 10 is" in str(raised.value)
