"""A real `langgraph dev` process, offline and without a key, asked through langgraph-sdk."""

import ast
import asyncio
import base64
import gc
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from agents import calls, data_uri, planner, shown, tool_messages
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client, get_sync_client
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from pages import run_python

from langgraph_mai import VisionMiddleware, create_vision_tool

ROOT = Path(__file__).parents[2]
CONFIG = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
PICTURES = ROOT / "demo" / "pictures"
HIGHEST = {"question": "Which bar is the highest?", "images": [str(PICTURES / "chart.png")]}
SQUARES = {
    "question": "How many squares can you see in the picture?",
    "images": [str(PICTURES / "squares.png")],
}


@pytest.fixture
async def client(studio):
    client = get_client(url=studio)
    yield client
    await client.aclose()


@pytest.fixture
async def assistants(client):
    return {one["graph_id"]: one for one in await client.assistants.search()}


async def test_all_graphs_are_shown_each_with_a_description(assistants):
    assert {name: one["description"] for name, one in assistants.items()} == {
        name: graph["description"] for name, graph in CONFIG["graphs"].items()
    }
    assert set(assistants) == {"mai", "mai_review", "mai_tool", "agent"}


async def test_the_input_is_a_form_that_a_person_can_fill(client, assistants):
    fields = {}
    for name, one in assistants.items():
        schemas = await client.assistants.get_schemas(one["assistant_id"])
        fields[name] = schemas["input_schema"]["properties"]
        if "answer_type" in fields[name]:
            assert "yes_no" in fields[name]["answer_type"]["enum"]
        settings = schemas["context_schema"]["properties"]
        assert {"timeout", "answer_type", "prompts", "transfer"} <= set(settings)
        assert all(setting["description"] for setting in settings.values())
        assert schemas["output_schema"]["properties"]
    questions = {"question", "images", "choices", "answer_type"}
    assert set(fields["mai"]) == {"messages", "schema", *questions}
    assert set(fields["agent"]) == {"messages", "images"}
    assert set(fields["mai_tool"]) == questions
    assert "data URIs" in fields["mai_tool"]["images"]["description"]
    for name in questions:
        assert fields["mai"][name]["description"]
        assert fields["mai_tool"][name]["description"]
    for name in ("mai", "agent"):
        assert "path or an http(s) URL" in fields[name]["images"]["description"]
        assert fields[name]["images"]["items"] == {"type": "string"}


STEPS = {
    "prepare",
    "small_agent",
    "large_agent",
    "verification",
    "small_reasoning",
    "reasoning_verification",
    "reasoning_transfer",
    "respond",
}


async def test_the_drawing_shows_every_node_and_edge(client, assistants):
    drawn = await client.assistants.get_graph(assistants["mai"]["assistant_id"])
    assert {node["id"] for node in drawn["nodes"]} == STEPS | {"__start__", "__end__"}
    assert len(drawn["edges"]) == 12
    agent = await client.assistants.get_graph(assistants["agent"]["assistant_id"])
    assert {(edge["source"], edge["target"]) for edge in agent["edges"]} == {
        ("__start__", "VisionMiddleware.before_agent"),
        ("VisionMiddleware.before_agent", "VisionMiddleware.before_model"),
        ("VisionMiddleware.before_model", "model"),
        ("model", "tools"),
        ("model", "VisionMiddleware.before_model"),
        ("model", "__end__"),
        ("tools", "VisionMiddleware.before_model"),
    }


async def test_a_run_answers(client):
    result = await client.runs.wait(None, "mai", input=HIGHEST)
    assert (result["route"], result["fallback"]) == ("direct", None)
    assert result["messages"][-1]["content"] == result["answer"]
    assert [call["role"] for call in result["calls"]] == ["small", "large"]


async def test_settings_reach_a_run(client):
    result = await client.runs.wait(None, "mai", input=SQUARES, context={"max_tokens_reason": 5})
    (reasoned,) = [call for call in result["calls"] if call["style"] == "reason"]
    assert (reasoned["output_tokens"], reasoned["cut"]) == (5, "length")


@pytest.mark.parametrize("graph", ["mai", "agent"])
async def test_every_setting_can_be_given_to_every_graph(client, graph):
    context = {
        "transfer": "full",
        "prompts": "default",
        "answer_type": "short_text",
        "timeout": 60,
        "max_tokens_direct": 4,
        "max_tokens_reason": 8,
        "max_tokens_transfer": 4,
        "free_text_overlap": 0.5,
    }
    content = {"type": "human", "content": HIGHEST["question"]}
    given = {
        "mai": HIGHEST,
        "agent": {"messages": [content], "images": HIGHEST["images"]},
    }
    result = await client.runs.wait(None, graph, input=given[graph], context=context)
    if graph == "agent":
        assert result["messages"][-1]["content"].startswith("answer: ")
    else:
        assert {call["kind"] for call in result["calls"]} == {"short_text"}


async def test_a_wrong_input_or_setting_says_what_is_wrong(client):
    wrong = [{"input": HIGHEST, "context": {name: -1}} for name in ("timeout", "prompts")]
    for options in ({"input": {}}, *wrong):
        thread = await client.threads.create()
        result = await client.runs.wait(thread["thread_id"], "mai", raise_error=False, **options)
        assert result["__error__"]["error"] == "MAIInputError"


async def test_a_stream_shows_tokens_events_and_steps(client):
    seen = {}
    modes = ["messages-tuple", "custom", "tasks"]
    async for part in client.runs.stream(None, "mai", input=SQUARES, stream_mode=modes):
        seen.setdefault(part.event, []).append(part.data)
    stages = [event["stage"] for event in seen["custom"] if event["event"] == "stage"]
    assert stages[2:] == ["small_reasoning", "reasoning_transfer"]
    assert seen["custom"][-1]["route"] == "transferred"
    assert {task["name"] for task in seen["tasks"]} == STEPS
    # Nothing that a chat page would show and take away again.
    ((message, _),) = seen["messages"]
    reasoning, text = message["content"]
    assert reasoning["reasoning"].splitlines()[-1].startswith("Answer:")
    assert text["text"] == seen["custom"][-1]["answer"]
    assert message["response_metadata"]["route"] == "transferred"


async def test_a_thread_keeps_its_state_and_history(client):
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "mai", input=SQUARES)
    await client.runs.wait(thread, "mai", input=HIGHEST)
    values = (await client.threads.get_state(thread))["values"]
    assert values["route"] == "direct"
    assert [message["type"] for message in values["messages"]] == ["human", "ai"] * 2
    assert values["task"]["question"] == HIGHEST["question"]
    assert values.get("small_reason") is None
    history = await client.threads.get_history(thread, limit=50)
    assert any("reasoning_transfer" in state["next"] for state in history)


async def test_a_stopped_run_is_resumed(client):
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "mai", input=SQUARES, interrupt_before=["reasoning_transfer"])
    state = await client.threads.get_state(thread)
    assert state["next"] == ["reasoning_transfer"]
    assert state["values"]["reasoning_verdict"] == "disagree"
    result = await client.runs.wait(thread, "mai", input=None)
    assert result["route"] == "transferred"
    assert len(result["calls"]) == 4


@pytest.mark.parametrize("graph", ["mai", "agent"])
async def test_a_picture_dropped_into_the_chat(client, graph):
    """As Studio's chat sends it: the data inside the message."""
    data = base64.b64encode((PICTURES / "squares.png").read_bytes()).decode()
    block = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    content = [{"type": "text", "text": SQUARES["question"]}, block]
    thread = (await client.threads.create())["thread_id"]
    given = {"messages": [{"type": "human", "content": content}]}
    result = await client.runs.wait(thread, graph, input=given)
    expected = await client.runs.wait(None, "mai", input=SQUARES)
    assert expected["answer"] in str(result["messages"][-1]["content"])
    kept = (await client.threads.get_state(thread))["values"]["messages"]
    assert kept[0]["content"][1] == block
    assert data[:60] not in json.dumps(kept[1:])


async def test_the_agent_finds_images_given_by_path(client):
    given = {
        "messages": [{"type": "human", "content": SQUARES["question"]}],
        "images": SQUARES["images"],
    }
    result = await client.runs.wait(None, "agent", input=given)
    assert [message["type"] for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert "route: transferred" in result["messages"][2]["content"]


async def test_two_runs_at_once(client):
    """Each one's first event comes before the other one's last."""
    order = []

    async def watch(name):
        nonlocal order
        async for _ in client.runs.stream(None, "mai", input=SQUARES, stream_mode="tasks"):
            order += [name]

    await asyncio.gather(watch("a"), watch("b"))
    last = {name: len(order) - 1 - order[::-1].index(name) for name in "ab"}
    assert order.index("a") < last["b"]
    assert order.index("b") < last["a"]


async def test_it_answers_health_checks_while_models_compute(client, studio):
    """Every check is answered, and some while the run goes on."""
    answered = []
    run = asyncio.gather(*(client.runs.wait(None, "mai", input=SQUARES) for _ in range(12)))
    async with httpx.AsyncClient() as checks:
        while not run.done():
            answered.append((await checks.get(f"{studio}/ok")).status_code)
            await asyncio.sleep(0.05)
    assert {result["route"] for result in await run} == {"transferred"}
    assert len(answered) > 2
    assert set(answered) == {200}


async def test_a_review_is_answered_by_a_decision(client):
    thread = (await client.threads.create())["thread_id"]
    stopped = await client.runs.wait(thread, "mai_review", input=SQUARES)
    (request,) = stopped["__interrupt__"][0]["value"]["action_requests"]
    edited = {"name": request["name"], "args": {"answer": "7"}}
    decision = {"decisions": [{"type": "edit", "edited_action": edited}]}
    result = await client.runs.wait(thread, "mai_review", command={"resume": decision})
    assert (result["answer"], result["fallback"]) == ("7", "review")


@pytest.fixture
def remote_graph(studio):
    """Makes a graph of the server, or of an address where none is."""
    with get_sync_client(url=studio) as here, get_sync_client(url="http://127.0.0.1:9") as nowhere:
        yield lambda name, *, served=True: RemoteGraph(
            name, sync_client=here if served else nowhere
        )


@pytest.mark.parametrize("graph", ["mai", "mai_tool"])
def test_a_remote_graph_in_a_tool_gets_images_as_data(remote_graph, graph):
    remote = remote_graph(graph)
    tool = create_vision_tool(remote)
    asked = {"question": HIGHEST["question"], "images": HIGHEST["images"]}
    plan = calls(asked, asked | {"question": " "}, {**asked, "images": ["1"]})
    agent = create_agent(
        planner(plan, AIMessage("So.")),
        middleware=[VisionMiddleware(remote)],
        checkpointer=InMemorySaver(),
    )
    result = agent.invoke({"messages": [shown("chart")]}, {"configurable": {"thread_id": "x"}})
    first, second, third = tool_messages(result)
    assert first.content == third.content == "answer: red\nroute: direct"
    assert second.status == "error"
    assert "question is empty" in second.content
    gone = create_vision_tool(remote_graph(graph, served=False))
    assert gone.invoke(asked).startswith("The remote graph failed")
    assert tool.invoke(asked) == first.content


async def test_the_mcp_tool_answers_without_messages_and_says_what_is_wrong(studio):
    data = data_uri("squares")
    async with (
        streamable_http_client(f"{studio}/mcp/") as (reading, writing, *_),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        results = []
        for asked in ({"images": [data]}, {"images": ["/etc/passwd"]}):
            given = {"question": SQUARES["question"], **asked}
            called = await session.call_tool("mai_tool", given)
            results.append(ast.literal_eval(called.content[0].text))
    answered, refused = results
    assert set(answered) == {"answer", "value", "route", "confidence", "error"}
    assert (answered["answer"], answered["value"], answered["error"]) == ("4", 4.0, None)
    assert refused["answer"] is None
    assert "/etc/passwd" in refused["error"]


def test_the_dockerfile_is_quoted_and_brings_what_the_graphs_need(tmp_path):
    path = tmp_path / "Dockerfile"
    command = [sys.executable, "-m", "langgraph_cli", "dockerfile", str(path)]
    subprocess.run([*command, "-c", str(ROOT / "langgraph.json")], check=True, capture_output=True)
    lines = path.read_text().splitlines()
    (graphs,) = [line for line in lines if line.startswith("ENV LANGSERVE_GRAPHS=")]
    (assignment,) = shlex.split(graphs.removeprefix("ENV "))
    assert json.loads(assignment.partition("=")[2]) == CONFIG["graphs"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*extras["optional-dependencies"]["transformers"]]
    needed += extras["optional-dependencies"]["agents"]
    (install,) = [line for line in lines if " torch " in line]
    assert {re.match(r"[\w-]+", one)[0] for one in needed} <= set(shlex.split(install))


def test_a_graph_that_lacks_its_extra_says_which_when_it_runs():
    code = (
        "import sys; sys.modules['langchain'] = None\n"
        "from langgraph_mai.tools.studio import agent\n"
        "agent.invoke({'messages': []})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MAIError: The graph `agent` cannot run here" in done.stderr
    assert "langgraph-mai[agents]" in done.stderr


async def test_each_graph_is_an_mcp_tool(studio):
    async with (
        streamable_http_client(f"{studio}/mcp/") as (reading, writing, *_),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {name: tool.description for name, tool in tools.items()} == {
            name: graph["description"] for name, graph in CONFIG["graphs"].items()
        }
        # By their names in the protocol: the fields' own differ between mcp 1 and 2.
        schema = tools["mai"].model_dump(by_alias=True)["inputSchema"]
        assert "question" in schema["properties"]
        said = await session.call_tool("mai", HIGHEST)
        assert not said.model_dump(by_alias=True)["isError"]
        result = ast.literal_eval(said.content[0].text)
    assert (result["route"], result["fallback"]) == ("direct", None)


def test_the_code_of_the_page_runs(studio):
    replaced = {"http://127.0.0.1:2024": studio, '"demo/pictures': f'"{ROOT}/demo/pictures'}
    run_python("docs/studio.md", replaced)["client"].close()
    gc.collect()  # A connection left open fails this test, not the next one.
