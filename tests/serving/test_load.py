"""Many questions at a time, models that fail or hang, clients that leave."""

import asyncio

import httpx
import pytest
from chat_servers import ChatServerProcess, hangs
from endpoints import ask, question, scripted_pair, served
from fakes import PROMPTS

from langgraph_mai import ChatServer, Pair
from langgraph_mai.models.errors import ModelError


async def until(condition):
    """Wait until something holds, five seconds at most."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


def counter(text, name):
    """Return a value of the metrics."""
    found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name + " ")]
    return float(found[0]) if found else 0.0


async def health(client):
    response = await client.get("/health")
    return response.status_code, response.json()["status"]


async def test_each_of_many_clients_gets_its_own_answer_and_too_many_are_told_when_to_come():
    pair = scripted_pair()
    for model in (pair.small, pair.large):
        model.script["direct"] = lambda prompt: prompt.split("?")[0].split()[-1]

    async def one(client, number):
        body = question(f"Which number is {number}?", mai={"answer_type": "number"})
        return number, await client.post("/v1/chat/completions", json=body)

    async with served(pair, concurrency=4, queue=30) as client:
        answers = await asyncio.gather(*(one(client, number) for number in range(200)))
        statuses = [response.status_code for _, response in answers]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= 34
        for number, response in answers:
            if response.status_code == 200:
                assert response.json()["choices"][0]["message"]["content"] == str(number)
            else:
                assert response.json()["error"]["code"] == "rate_limit_exceeded"
                assert int(response.headers["Retry-After"]) > 0
        told = (await client.get("/metrics")).text
        assert counter(told, 'mai_requests_total{status="429"}') == statuses.count(429)
        assert counter(told, 'mai_questions_total{model="mai",route="direct"}') == statuses.count(
            200
        )
        assert (counter(told, "mai_in_flight"), counter(told, "mai_waiting")) == (0, 0)
        assert (await ask(client))[0] == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["mai", "small"])
async def test_a_client_that_leaves_ends_its_model_calls_and_frees_its_place(stream, model):
    pair = scripted_pair()
    async with served(pair, port=True, concurrency=1, queue=0) as client:
        await until(lambda: pair.small.read and pair.large.read)
        pair.small.pause = pair.large.pause = 60
        body = question(model=model, stream=stream)
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/chat/completions", json=body, timeout=0.3)
        await until(lambda: pair.small.left)
        pair.small.pause = pair.large.pause = 0
        assert (await ask(client))[0] == 200
        told = (await client.get("/metrics")).text
        assert counter(told, 'mai_requests_total{status="499"}') == 1


async def test_a_client_that_leaves_in_the_middle_of_a_stream_ends_the_run(monkeypatch):
    monkeypatch.setattr("langgraph_mai.serving.endpoint.KEEP_ALIVE_SECONDS", 0.05)
    pair = scripted_pair("transferred")
    async with served(pair, port=True) as client:
        await until(lambda: pair.small.read and pair.large.read)
        pair.large.pause = 60
        body = question(stream=True)
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                assert line.startswith(":")
                break
        await until(lambda: pair.large.left)


async def test_health_tells_when_models_answer_fail_and_answer_again(monkeypatch):
    monkeypatch.setattr("langgraph_mai.serving.endpoint.PROBE_SECONDS", 0.02)
    pair = scripted_pair()
    pair.large.script["direct"] = pair.large.script["transfer"] = ModelError("It is gone.")
    async with served(pair) as client:
        assert await health(client) == (503, "starting")
        pair.large.script["direct"] = pair.large.script["transfer"] = "yes"
        async with asyncio.timeout(5):
            while await health(client) != (200, "ok"):
                await asyncio.sleep(0.01)
        monkeypatch.setattr("langgraph_mai.serving.endpoint.PROBE_SECONDS", 60)
        await asyncio.sleep(0.05)
        pair.large.script["direct"] = ModelError("It is gone.")
        status, body = await ask(client)
        # The other model's answer stands.
        assert (status, body["mai"]["fallback"]) == (200, "small_direct")
        assert await health(client) == (200, "degraded")
        pair.small.script["direct"] = ModelError("It is gone, too.")
        status, body = await ask(client)
        assert (status, body["error"]["type"]) == (502, "server_error")
        assert "It is gone, too." in body["error"]["message"]
        assert await health(client) == (503, "unavailable")
        told = (await client.get("/metrics")).text
        assert counter(told, 'mai_failed_calls_total{role="large",style="direct"}') == 2
        assert counter(told, 'mai_fallbacks_total{fallback="small_direct"}') == 1
        assert counter(told, 'mai_model_up{role="large"}') == 0
        pair.small.script["direct"] = pair.large.script["direct"] = "yes"
        assert (await ask(client))[0] == 200
        assert await health(client) == (200, "ok")


async def test_a_hanging_model_is_waited_for_so_long_and_no_longer():
    pair = scripted_pair()
    async with served(pair, timeout=0.3) as client:
        await until(lambda: pair.small.read and pair.large.read)
        pair.large.pause = 60
        status, body = await ask(client)
        assert (status, body["mai"]["fallback"]) == (200, "small_direct")
        assert pair.large.left
        status, body = await ask(client, model="large")
        assert (status, body["error"]["type"]) == (504, "server_error")
        # A client may ask for less time, not for more.
        _, body = await ask(client, mai={"timeout": 1000})
        assert "within 0.3 s" in body["mai"]["calls"][1]["error"]


async def test_an_unexpected_error_is_told_without_its_words():
    pair = scripted_pair()
    async with served(pair) as client:
        pair.small.script["direct"] = RuntimeError("secret")
        for stream in (False, True):
            status, body = await ask(client, model="small", stream=stream, **MESSAGES)
            assert (status, body["error"]["type"]) == (500, "server_error")
            assert "secret" not in str(body)


MESSAGES = {"messages": [{"role": "user", "content": "DIRECT"}]}


@pytest.fixture
def servers():
    """A model server for each model, and the pair that uses them."""
    small, large = ChatServerProcess(), ChatServerProcess()
    models = (ChatServer(model="m", base_url=one.url, max_retries=0) for one in (small, large))
    yield small, large, Pair("served", *models, PROMPTS)
    small.stop()
    large.stop()


async def test_a_model_server_that_goes_down_costs_no_answer_and_health_follows(
    servers, monkeypatch
):
    monkeypatch.setattr("langgraph_mai.serving.endpoint.PROBE_SECONDS", 0.05)
    _, large, pair = servers
    async with served(pair, port=True) as client:
        async with asyncio.timeout(10):
            while await health(client) != (200, "ok"):
                await asyncio.sleep(0.01)
        large.stop()
        answers = await asyncio.gather(*(ask(client) for _ in range(8)))
        assert {(code, body["mai"]["fallback"]) for code, body in answers} == {
            (200, "small_direct")
        }
        assert await health(client) == (200, "degraded")
        large.start()
        async with asyncio.timeout(10):
            while await health(client) != (200, "ok"):
                await asyncio.sleep(0.01)
        assert (await ask(client))[1]["mai"]["fallback"] is None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_is_told_to_the_model_server_while_others_go_on(servers, stream):
    small, large, pair = servers
    async with served(pair, port=True) as client:
        await until(lambda: small.requests and large.requests)
        large.script.append(hangs)
        body = question(stream=stream)
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/chat/completions", json=body, timeout=0.3)
        assert (await ask(client))[0] == 200
        await asyncio.to_thread(large.hung_up.wait, 5)
        assert large.hung_up.is_set()
