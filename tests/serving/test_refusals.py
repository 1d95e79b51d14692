"""What the endpoint refuses, in OpenAI's form, and who is let in."""

import pytest
from endpoints import PIXEL, ask, question, scripted_pair, served

TOOL = {"type": "function", "function": {"name": "f"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
FILE = {"type": "file", "file": {"file_id": "f"}}


def of_user(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


def image(url, **fields):
    shown = {"type": "image_url", "image_url": {"url": url, **fields}}
    return of_user(shown, {"type": "text", "text": "Is it red?"})


def form(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


REFUSED = [
    ({"n": 2}, "n", "one answer"),
    ({"tools": [TOOL]}, "tools", "calls no tools"),
    ({"tool_choice": "required"}, "tool_choice", "calls no tools"),
    ({"response_format": {"type": "json_object"}}, "response_format", "'json_schema'"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
     "response_format.json_schema", "required"),
    ({"response_format": form({"type": "array"})}, None, "object"),
    ({"response_format": form({"a": "a" * 50_000}), "model": "small"}, "response_format", "50,000"),
    ({"logprobs": True}, "logprobs", "log-probabilities"),
    ({"top_p": 0.5}, "top_p", "temperature and seed"),
    ({"audio": {"voice": "a"}}, "audio", "text"),
    ({"modalities": ["text", "audio"]}, "modalities", "text"),
    ({"frequency_penalty": 0.1}, "frequency_penalty", "penalties"),
    ({"top_k": 5}, "top_k", "unknown"),
    ({"temperature": 3}, "temperature", "less than or equal to 2"),
    ({"temperature": "0"}, "temperature", "valid number"),
    ({"max_tokens": 0}, "max_tokens", "greater than 0"),
    ({"seed": -1}, "seed", "greater than or equal to 0"),
    ({"stop": ["a"] * 5}, "stop", "4 items"),
    ({"stream": "yes"}, "stream", "boolean"),
    ({"messages": []}, "messages", "at least 1"),
    ({"messages": [{"role": "tool", "content": "3"}]}, "messages[0].role", "system"),
    ({"messages": [{"role": "assistant", "content": "3"}]}, "messages", "user's question"),
    ({"messages": [{"role": "system", "content": image(PIXEL)["messages"][0]["content"]}]},
     "messages", "Only the user's"),
    (of_user(AUDIO), "messages[0].content[0]", "'input_audio', but only 'text', 'image_url'"),
    (of_user(FILE), "messages[0].content[0]", "'file', but only 'text', 'image_url'"),
    (of_user({"type": "a" * 9999}), "messages[0].content[0]", "only 'text', 'image_url'"),
    (of_user({"type": "text", "text": "?" * 200_001}), "messages", "200,000 characters"),
    ({"a" * 9999: 1}, "aaa", "unknown"),
    (image("/etc/hostname"), "messages", "data URIs"),
    (image("data"), "messages", "data URIs"),
    (image("data:\\x"), None, "no comma"),
    (image("file:///etc/hostname"), "messages", "data URIs"),
    (image("http://127.0.0.1:1/a.png"), "messages", "none is fetched here"),
    (image(PIXEL, detail="low"), "messages[0].content[0].image_url.detail", "'auto' or 'high'"),
    (image("data:image/png;base64,AAAA"), None, "not an image"),
    (of_user({"type": "text", "text": " "}), None, "question is empty"),
    ({"mai": {"answer_type": "nope"}}, "mai.answer_type", "'yes_no'"),
    ({"mai": {"choices": ["a", "a"]}}, None, "given twice"),
    ({"mai": {"timeout": 0}}, "mai.timeout", "greater than 0"),
    ({"mai": {"foo": 1}}, "mai.foo", "unknown"),
    ({"mai": {"transfer": "sparse"}}, None, "attention"),
    ({"mai": {"transfer": "full"}, "model": "small_direct"}, "mai.transfer", "no reasoning"),
    ({"mai": {"choices": ["a"]}, "model": "large"}, "mai", "alone"),
    ({"temperature": 1, "model": "speculative"}, "temperature", "temperature 0"),
]  # fmt: skip


async def test_what_cannot_be_honoured_is_one_sentence_that_names_the_field():
    pair = scripted_pair()
    async with served(pair) as client:
        for fields, param, words in REFUSED:
            for stream in ({}, {"stream": True}):
                status, body = await ask(client, **({**stream, **fields}))
                error = body["error"]
                assert (status, error["type"]) == (400, "invalid_request_error"), fields
                assert words in error["message"], fields
                assert error["message"].endswith("."), fields
                assert len(error["message"]) < 500
                assert (error["param"] or "").startswith(param or ""), fields
        status, body = await ask(client, model="gpt")
        assert (status, body["error"]["code"]) == (404, "model_not_found")
        asked = [call for call in pair.small.calls if "red" in call["prompt"]]
        assert asked == []


async def test_what_changes_nothing_is_accepted():
    fields = {
        "n": 1, "top_p": 1.0, "tools": [], "tool_choice": "auto", "logprobs": False, "stop": None,
        "response_format": {"type": "text"}, "user": "me", "metadata": {"a": "b"}, "store": False,
        "presence_penalty": 0, "service_tier": "auto", "parallel_tool_calls": True,
    }  # fmt: skip
    async with served() as client:
        assert (await ask(client, **fields))[0] == 200


@pytest.mark.parametrize("allow_fetch", [False, True])
async def test_an_image_is_fetched_only_where_that_is_allowed(allow_fetch):
    async with served(allow_fetch=allow_fetch) as client:
        status, body = await ask(client, **image("http://127.0.0.1:1/a.png"))
    assert status == 400
    assert ("cannot be fetched" in body["error"]["message"]) == allow_fetch


BODIES = [
    (b"{", "application/json", 400, "not valid JSON"),
    (b"[" * 100_000, "application/json", 400, "not valid JSON"),
    (b"\xff\xfe", "application/json", 400, "not valid JSON"),
    (b"[]", "application/json", 400, "JSON object"),
    (b"{}", "text/plain", 415, "Content-Type"),
    (b'{"model": "' + b"a" * 3000, "application/json; charset=utf-8", 413, "larger than"),
]


async def test_bodies_are_bounded_and_of_json(monkeypatch):
    monkeypatch.setattr("langgraph_mai.serving.endpoint.MAX_BODY_BYTES", 2000)
    async with served() as client:
        for content, kind, status, words in BODIES:
            if len(content) > 2000 and status == 400:
                monkeypatch.setattr("langgraph_mai.serving.endpoint.MAX_BODY_BYTES", 1 << 20)
            response = await client.post(
                "/v1/chat/completions", content=content, headers={"Content-Type": kind}
            )
            monkeypatch.setattr("langgraph_mai.serving.endpoint.MAX_BODY_BYTES", 2000)
            assert response.status_code == status, content[:20]
            assert words in response.json()["error"]["message"]
        response = await client.get("/v1/embeddings")
        assert (response.status_code, "not served" in response.text) == (404, True)
        assert (await client.get("/v1/chat/completions")).status_code == 405
        # Nothing of all that holds a place.
        assert (await client.post("/v1/chat/completions", json=question())).status_code == 200


async def test_with_a_key_only_the_health_is_open():
    keys = [None, "Bearer wrong", "Basic secret", "Bearer sécret"]
    async with served(api_key="secret") as client:
        for path in ("/v1/models", "/metrics"):
            for key in keys:
                headers = {"Authorization": key.encode()} if key else {}
                response = await client.get(path, headers=headers)
                assert response.status_code == 401
                assert response.json()["error"]["code"] == "invalid_api_key"
            right = {"Authorization": "Bearer secret"}
            assert (await client.get(path, headers=right)).status_code == 200
        assert (await ask(client))[0] == 401
        assert (await client.get("/health")).status_code in {200, 503}
