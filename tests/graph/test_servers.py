"""A pair of which one model is on a server: the run does without a server that fails."""

import asyncio
import json
import logging
import re

import pytest
from chat_servers import answers, dies_before, fails, hangs, page
from fakes import PROMPTS, ScriptedModel, scripts
from langgraph.checkpoint.memory import InMemorySaver
from PIL import Image

from langgraph_mai import ChatServer, MAIError, create_mai

KEY = "sk-not-for-your-eyes"


def large_on(server, **settings) -> ChatServer:
    return ChatServer(
        **{"model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 0} | settings
    )


def small(route: str = "direct") -> ScriptedModel:
    return ScriptedModel(script=scripts(route)[0], label="small")


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "red.png"
    Image.new("RGB", (40, 40), "red").save(path)
    return {"question": "Is it red?", "images": [str(path)]}


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request, given):
    def go(graph, **more):
        if request.param == "invoke":
            return graph.invoke(given, **more)
        return asyncio.run(graph.ainvoke(given, **more))

    return go


def test_a_question_on_both(server, run):
    result = run(create_mai(small(), large_on(server), prompts=PROMPTS))
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "direct", None)
    call = result["calls"][1]
    assert (call["input_tokens"], call["output_tokens"], call["cached_tokens"]) == (20, 2, 16)
    (request,) = server.requests
    content = request["body"]["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["image_url", "text"]
    assert request["body"]["max_tokens"] == PROMPTS.direct.max_tokens


def test_a_disputed_question_sends_the_same_beginning_twice(server, run):
    result = run(create_mai(small("transferred"), large_on(server), prompts=PROMPTS))
    assert result["route"] == "transferred"
    first, second = (
        json.dumps(request["body"]["messages"][:-1])
        + json.dumps(request["body"]["messages"][-1]["content"][:-1])
        for request in server.requests
    )
    assert first == second
    texts = [request["body"]["messages"][-1]["content"][-1]["text"] for request in server.requests]
    assert texts[0].removesuffix("DIRECT") == texts[1].partition("TRANSFER")[0]


def test_a_server_that_goes_down_and_comes_back(server, run):
    graph = create_mai(small(), large_on(server), prompts=PROMPTS)
    assert run(graph)["fallback"] is None
    server.stop()
    result = run(graph)
    assert (result["answer"], result["fallback"]) == ("yes", "small_direct")
    error = result["calls"][1]["error"]
    assert error.startswith("The large model's direct call failed: The server at http://127.0.0.1:")
    assert "cannot be reached" in error
    server.start()
    result = run(graph)
    assert (result["answer"], result["fallback"]) == ("yes", None)
    assert all(call["error"] is None for call in result["calls"])


def test_a_server_that_goes_down_between_two_calls(server, run):
    def stop(_prompt):
        server.stop()
        return "Hm.\nAnswer: no"

    reasoner = small("transferred")
    reasoner.script["reason"] = stop
    result = run(create_mai(reasoner, large_on(server), prompts=PROMPTS))
    assert (result["route"], result["answer"]) == ("transferred", "yes")
    assert result["fallback"] == "large_direct"
    assert "cannot be reached" in result["calls"][-1]["error"]
    server.start()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (fails(500, "EngineCore died"), "EngineCore died"),
        (fails(401, f"bad key {KEY}"), "refuses the API key"),
        (fails(429), "too much to do"),
        (dies_before, "broke off"),
        (page, "no chat completion"),
        (hangs, "within the timeout of 3 seconds"),
    ],
    ids=["500", "401", "429", "dies", "page", "hangs"],
)
def test_no_fault_of_a_server_costs_the_answer(fault, words, server, run, caplog):
    caplog.set_level(logging.DEBUG)
    server.otherwise = fault
    timeout = 3 if fault is hangs else 60
    graph = create_mai(
        small(), large_on(server), prompts=PROMPTS, timeout=timeout, checkpointer=InMemorySaver()
    )
    thread = {"configurable": {"thread_id": "1"}}
    result = run(graph, config=thread)
    assert (result["answer"], result["fallback"]) == ("yes", "small_direct")
    error = result["calls"][1]["error"]
    assert re.search(words, error)
    assert server.url in error
    for text in (repr(result), repr(graph.get_state(thread)), caplog.text):
        assert KEY not in text
    if fault is hangs:
        assert server.hung_up.wait(15)  # the run's timeout ended the request


def test_both_models_on_a_server_that_is_down(server, run):
    graph = create_mai(large_on(server), large_on(server), prompts=PROMPTS)
    server.stop()
    with pytest.raises(MAIError, match="cannot be reached") as error:
        run(graph)
    assert KEY not in str(error.value)
    server.start()
    assert run(graph)["answer"] == "yes"


def test_tokens_of_a_server_are_streamed(server, given):
    server.otherwise = answers("yes it is")
    graph = create_mai(small(), large_on(server), prompts=PROMPTS)
    pieces = [
        message.text
        for message, metadata in graph.stream(given, stream_mode="messages")
        if "mai:large" in metadata.get("tags", [])
    ]
    assert "".join(pieces) == "yes it is"
    assert len([piece for piece in pieces if piece]) == 3


def test_many_questions_at_once(server, given):
    server.otherwise = answers("yes")
    graph = create_mai(small(), large_on(server), prompts=PROMPTS)
    results = asyncio.run(graph.abatch([given] * 50))
    assert [result["fallback"] for result in results] == [None] * 50
    assert len(server.requests) == 50
