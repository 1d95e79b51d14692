"""What the endpoint answers, whole and as a stream, and what reaches the models."""

import json

import pytest
from endpoints import PIXEL, ask, events, question, scripted_pair, served
from langsmith import Client
from langsmith.run_helpers import tracing_context

from langgraph_mai import Pair, create_mai
from langgraph_mai.graph import STRATEGIES

from ..graph.test_gate import PROMPTS, calibration
from ..graph.test_gate import pair as sure_pair

ROUTES = [("direct", 2, ""), ("reasoned", 3, "It looks red.\nAnswer: yes")]
ROUTES += [("transferred", 4, "Hm.\nAnswer: no")]


@pytest.mark.parametrize(("route", "calls", "reasoning"), ROUTES)
async def test_an_answer_is_that_of_the_graph_with_its_route_reasoning_and_usage(
    route, calls, reasoning
):
    pair = scripted_pair(route)
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
    own = await mai.ainvoke({"question": "Is it red?", "images": [PIXEL]})
    async with served(pair) as client:
        status, body = await ask(client)
    assert (status, body["object"], body["model"]) == (200, "chat.completion", "mai")
    (choice,) = body["choices"]
    assert choice["message"]["content"] == own["answer"] == "yes"
    assert choice["message"].get("reasoning_content", "") == reasoning
    assert choice["finish_reason"] == "stop"
    told = body["mai"]
    assert (told["route"], told["value"], told["fallback"]) == (route, True, None)
    assert [call["text"] for call in told["calls"]] == [call["text"] for call in own["calls"]]
    summed = own["messages"][-1].usage_metadata
    usage = body["usage"]
    assert usage["prompt_tokens"] == summed["input_tokens"] == 100 * calls
    assert usage["completion_tokens"] == summed["output_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 10 * calls
    assert usage["completion_tokens_details"]["reasoning_tokens"] == len(reasoning.split())


@pytest.mark.parametrize("usage", [True, False])
async def test_a_stream_has_the_reasoning_then_the_answer_then_the_usage(usage):
    fields = {"stream": True, "stream_options": {"include_usage": usage}}
    async with served(scripted_pair("transferred")) as client:
        _, whole = await ask(client)
        request = client.stream("POST", "/v1/chat/completions", json=question(**fields))
        async with request as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            *sent, end = await events(response)
    assert end == "[DONE]"
    chunks = [json.loads(line) for line in sent]
    assert {(chunk["id"], chunk["object"]) for chunk in chunks} == {
        (chunks[0]["id"], "chat.completion.chunk")
    }
    if usage:
        assert (chunks[-1]["choices"], chunks.pop()["usage"]) == ([], whole["usage"])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0].pop("role") == "assistant"
    kinds = [name for delta in deltas for name in delta]
    assert kinds == ["reasoning_content"] * (len(kinds) - 1) + ["content"]
    assert len(kinds) > 2
    message = whole["choices"][0]["message"]
    for kind in ("reasoning_content", "content"):
        assert "".join(delta.get(kind, "") for delta in deltas) == message[kind]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["mai"]["route"] == "transferred"


async def test_a_stream_is_kept_alive_while_the_models_work(monkeypatch):
    monkeypatch.setattr("langgraph_mai.serving.endpoint.KEEP_ALIVE_SECONDS", 0.02)
    pair = scripted_pair("reasoned")
    async with served(pair) as client:
        pair.small.pause = 0.1
        request = client.stream("POST", "/v1/chat/completions", json=question(stream=True))
        async with request as response:
            lines = await events(response)
    assert lines[0].startswith(": ")
    assert (response.status_code, lines[-1]) == (200, "[DONE]")


@pytest.mark.parametrize("model", ["mai", "small"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_model_generates_ends_no_event_and_breaks_no_json(model, stream):
    said = "yes\u2028data: [DONE]\x85\r\n\ndata: x \ud800"
    pair = scripted_pair()
    pair.small.script["direct"] = pair.large.script["direct"] = said
    async with served(pair) as client:
        response = await client.post(
            "/v1/chat/completions", json=question("DIRECT", model=model, stream=stream)
        )
    assert (response.status_code, response.text.isascii()) == (200, True)
    lines = response.text.splitlines() if stream else [f"data: {response.text}"]
    bodies = [
        json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")
    ]
    assert len([line for line in lines if line]) == len(bodies) + stream
    choices = [choice for body in bodies for choice in body["choices"]]
    texts = [(one.get("message") or one["delta"]).get("content") or "" for one in choices]
    told = bodies[-1]["mai"]["calls"][0]["text"] if model == "mai" else "".join(texts)
    assert "\u2028data:" in told
    assert "\ud800" in told


async def test_every_strategy_and_both_models_answer_by_name():
    async with served(scripted_pair("reasoned")) as client:
        listed = (await client.get("/v1/models")).json()
        names = [model["id"] for model in listed["data"]]
        assert names[0] == "mai"
        assert set(names) == {*STRATEGIES, "small", "large"}
        for name in names[:-2]:
            status, body = await ask(client, model=name)
            assert (status, body["model"]) == (200, name)
            assert body["choices"][0]["message"]["content"] in {"yes", "no"}


async def test_a_model_alone_gets_the_messages_as_they_are():
    pair = scripted_pair()
    turns = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "refusal": None},
        *question("DIRECT")["messages"],
    ]
    fields = {"messages": turns, "model": "small", "max_tokens": 3, "temperature": 0.5, "seed": 7}
    async with served(pair) as client:
        status, body = await ask(client, **fields)
        request = client.stream(
            "POST", "/v1/chat/completions", json=question(**fields, stream=True)
        )
        async with request as response:
            chunks = [json.loads(line) for line in (await events(response))[:-1]]
    assert (status, body["choices"][0]["message"]["content"]) == (200, "yes")
    assert "mai" not in body
    assert body["usage"]["total_tokens"] == 101
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == ["yes", None]
    read = pair.small.read[-1]
    assert [message.type for message in read] == ["system", "human", "ai", "human"]
    assert [str(message.text) for message in read] == ["Be kind.", "Hello", "Hi", "DIRECT"]
    call = pair.small.calls[-1]
    assert (call["max_tokens"], call["temperature"], call["seed"]) == (3, 0.5, 7)


async def test_system_messages_and_earlier_turns_are_read_before_the_question():
    pair = scripted_pair()
    turns = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        *question("What is it?")["messages"],
        {"role": "assistant", "content": "A ball."},
        {"role": "user", "content": question()["messages"][0]["content"][:1]},
        {"role": "user", "content": "Is it red?"},
    ]
    async with served(pair) as client:
        status, body = await ask(client, messages=turns)
    assert (status, body["choices"][0]["message"]["content"]) == (200, "yes")
    for model in (pair.small, pair.large):
        system, human = model.read[-1]
        assert str(system.text).split("\n") == [
            "You answer.", "", "Be brief.", "", "The conversation so far:",
            "user: What is it?", "assistant: A ball.",
        ]  # fmt: skip
        assert [block["type"] for block in human.content] == ["image", "text"]
        assert str(human.text).startswith("Is it red?\n")


LIMITS = [
    ({}, [4, 4, 64, 5]),
    ({"max_tokens": 2}, [2, 2, 64, 2]),
    ({"max_completion_tokens": 3}, [3, 3, 3, 3]),
    ({"max_completion_tokens": 1000}, [4, 4, 64, 5]),
]


@pytest.mark.parametrize(("fields", "limits"), LIMITS)
async def test_limits_bound_the_answer_or_every_call_and_raise_none(fields, limits):
    pair = scripted_pair("transferred")
    async with served(pair) as client:
        await ask(client, **fields, temperature=0.5, seed=1)
    first, second = pair.small.calls[-2:]
    third, fourth = pair.large.calls[-2:]
    calls = [first, third, second, fourth]
    assert [call["max_tokens"] for call in calls] == limits
    assert {(call["temperature"], call["seed"]) for call in calls} == {(0.5, 1)}


async def test_settings_of_the_cascade_and_stop_strings_count():
    pair = scripted_pair()
    pair.small.script["direct"] = pair.large.script["direct"] = "B"
    async with served(pair) as client:
        _, body = await ask(client, mai={"choices": ["a ball", "a box"], "timeout": 5})
        assert (body["mai"]["value"], body["mai"]["calls"][0]["kind"]) == ("B", "choice")
        pair.small.script["direct"] = pair.large.script["direct"] = "Paris"
        _, body = await ask(client, mai={"answer_type": "short_text"}, stop=["x", "is"])
        assert body["choices"][0]["message"]["content"] == "Par"
        pair.large.finish["direct"] = "length"
        _, body = await ask(client, mai={"answer_type": "short_text"}, stop="x")
        assert body["choices"][0]["finish_reason"] == "length"


async def test_an_answer_in_a_schema_is_json_with_the_fields_beside_it():
    pair = scripted_pair()
    pair.small.script["direct"] = pair.large.script["direct"] = '{"red": true, "count": 3}'
    properties = {"red": {"type": "boolean"}, "count": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["red", "count"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    async with served(pair) as client:
        status, body = await ask(client, response_format=form)
        assert status == 200
        value = json.loads(body["choices"][0]["message"]["content"])
        assert value == body["mai"]["value"] == {"red": True, "count": 3}
        assert body["mai"]["fields"]["count"]["route"] == "direct"
        direct = question("DIRECT", model="small", response_format=form)
        assert (await client.post("/v1/chat/completions", json=direct)).status_code == 200
        given = pair.small.calls[-1]["response_format"]["json_schema"]
        assert given == form["json_schema"]


async def test_route_and_confidence_are_in_the_metadata_of_a_traced_run():
    sent = []

    class Recorder(Client):
        def create_run(self, *args, **kwargs):
            sent.append(kwargs)

        def update_run(self, *args, **kwargs):
            sent.append(kwargs)

    client = Recorder(api_url="http://127.0.0.1:1", api_key="x", auto_batch_tracing=False)
    with tracing_context(enabled=True, client=client):
        async with served() as http:
            await ask(http)
    metadata = [run.get("extra", {}).get("metadata", {}) for run in sent]
    assert any(one.get("route") == "direct" and "confidence" in one for one in metadata)


async def test_route_and_confidence_are_attributes_of_a_span_of_opentelemetry(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("random.random", lambda: 1.0)  # no audit
    sdk = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    spans = memory.InMemorySpanExporter()
    provider = pytest.importorskip("opentelemetry.sdk.trace").TracerProvider()
    provider.add_span_processor(sdk.SimpleSpanProcessor(spans))
    client = Client(
        api_url="http://127.0.0.1:1",
        api_key="x",
        tracing_mode="otel",
        otel_tracer_provider=provider,
    )
    with tracing_context(enabled=True, client=client):
        async with served(gated_pair(tmp_path)) as http:
            await ask(http, mai={"answer_type": "yes_no"})
    client.flush()
    (run,) = (span for span in spans.get_finished_spans() if span.name == "chat.completions")
    assert run.attributes["langsmith.metadata.route"] == "confident"
    assert float(run.attributes["langsmith.metadata.confidence"]) == pytest.approx(0.85)


def gated_pair(folder):
    """A pair whose small model is sure enough, with its calibration."""
    small, large = sure_pair("transferred")
    file = folder / "calibration.json"
    file.write_text(calibration(small, large).model_dump_json())
    return Pair("sure", small, large, PROMPTS, gate=str(file))


async def test_a_gate_skips_the_large_model_unless_a_request_changes_the_prompts(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("random.random", lambda: 1.0)  # no audit
    pair = gated_pair(tmp_path)
    system = [{"role": "system", "content": "Be brief."}, *question()["messages"]]
    async with served(pair) as client:
        _, body = await ask(client, mai={"answer_type": "yes_no"})
        told = body["mai"]
        assert (told["route"], len(told["calls"]), told["gate"]["off"]) == ("confident", 1, None)
        assert told["confidence"] == pytest.approx(0.85)
        _, body = await ask(client, messages=system)
        assert (body["mai"]["route"], body["mai"]["gate"]) == ("transferred", None)
