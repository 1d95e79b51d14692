"""What a caller sees of answers that are none, and of a key that an answer repeats."""

import asyncio
import json
import traceback

import pytest
from chat_servers import chunk, sends
from langchain_core.messages import HumanMessage

from langgraph_mai import ChatServer, ModelError

KEY = "sk-not-for-your-eyes"


def model_on(server, **settings) -> ChatServer:
    given = {"model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 0}
    return ChatServer(**given | settings)


def assert_one_sentence(error: pytest.ExceptionInfo, server) -> None:
    message = str(error.value)
    assert type(error.value) is ModelError
    assert server.url in message
    assert message.endswith(".")
    assert "\n" not in message
    assert KEY not in "".join(traceback.format_exception(error.value))


def completion(message: object = None, **more: object) -> dict:
    message = {"role": "assistant", "content": "yes"} if message is None else message
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m"} | {
        "choices": [choice],
        **more,
    }


BODIES = [
    *map(json.dumps, [None, 5, "x", [1], {"choices": ["x"]}, {"choices": [{}]}]),
    json.dumps(completion("hello")),
    json.dumps(completion({"role": "assistant", "content": 5})),
    json.dumps(completion({"role": "assistant", "content": [1, None]})),
    json.dumps(completion({"role": "assistant", "content": "x", "tool_calls": 5})),
    json.dumps(completion({"role": "assistant", "content": "x", "tool_calls": [5]})),
    json.dumps(completion(usage="x")),
    json.dumps(completion(usage={"prompt_tokens": "1", "completion_tokens": 1})),
    "",
    '{"a":',
    "[" * 100_000 + "]" * 100_000,
    '{"choices": ' + "9" * 6000 + "}",
    b'{"id": "\xff"}',
]


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


# Whether pydantic's warnings about such bodies are errors must make no difference.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_nonsense_instead_of_an_answer(body, way, server):
    server.otherwise = sends(as_bytes(body))
    model = model_on(server)
    with pytest.raises(ModelError, match="no chat completion") as error:
        model.invoke("?") if way == "invoke" else asyncio.run(model.ainvoke("?"))
    assert_one_sentence(error, server)
    assert len(str(error.value)) < 600


def choice(delta: object) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})


EVENTS = [
    *map(json.dumps, [None, [], "x", 4, {"choices": 5}, {"choices": ["x"]}]),
    *map(choice, ["abc", 5, {"content": 5}, {"content": [1]}, {"tool_calls": [5]}]),
    json.dumps({"choices": [], "usage": "x"}),
    json.dumps({"choices": [], "usage": {"prompt_tokens": "1"}}),
    "{",
    "[" * 100_000 + "]" * 100_000,
    '{"choices": ' + "9" * 6000 + "}",
    b'{"choices": "\xff"}',
]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_nonsense_in_a_stream(event, begun, way, server):
    before = [json.dumps(chunk("yes"))] if begun else []
    events = [*map(as_bytes, [*before, event]), b"[DONE]"]
    data = b"".join(b"data: " + one + b"\n\n" for one in events)
    server.otherwise = sends(data, "text/event-stream")
    model = model_on(server)

    async def read():
        return [piece async for piece in model.astream("?")]

    with pytest.raises(ModelError, match="no chat completion") as error:
        list(model.stream("?")) if way == "stream" else asyncio.run(read())
    assert_one_sentence(error, server)
    assert len(server.requests) == 1


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_nonsense_instead_of_a_list_of_models(body, server):
    server.listing = sends(as_bytes(body))
    with pytest.raises(ModelError, match=r"no chat completion|has no model"):
        model_on(server).load()


@pytest.mark.parametrize(
    "given", ["half \ud800", [HumanMessage([{"type": "text", "text": "\udfff"}])]]
)
def test_half_a_character_in_a_prompt(given, server, ask):
    with pytest.raises(ModelError, match=r"holds half a character \('\\ud"):
        ask(model_on(server), given)
    assert not server.requests


KEYS = ["1", "0", "e", "m", "null", "true", "sk-abc", 'quo"ted\\key"', "it's\\a'key", KEY]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("status", [400, 500, 200])
def test_a_key_is_hidden_and_nothing_else(key, status, server, ask):
    message = "The null model e1 of 10 is true to its name."
    error = {"message": message, "code": status, "param": None, "stream": True}
    error[f"Bearer {key}"] = [{"sent": f"Bearer {key}"}]
    if status == 200:
        server.otherwise = lambda handler, _: handler.events([{"error": error}])
    else:
        server.otherwise = lambda handler, _: handler.reply(status, {"error": error})
    with pytest.raises(ModelError) as raised:
        ask(model_on(server, api_key=key))
    shown = "".join(traceback.format_exception(raised.value))
    for form in (key, repr(key)[1:-1], json.dumps(key)[1:-1]):
        assert f"Bearer {form}" not in shown
    if status != 200:
        assert "model e1 of 10 is" in str(raised.value)
