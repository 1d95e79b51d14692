"""The tool inside and outside of agents; the planner is scripted, the vision side is real."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import NotRequired

import pytest
from agents import HIGHEST, SQUARES, THREAD, calls, data_uri, encoded, picture, shown, tool_messages
from agents import planner as scripted
from deepagents import DeepAgentState, create_deep_agent
from fakes import PROMPTS, models
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime
from langchain.tools import tool as as_tool
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from langgraph_mai import MAIContext, create_mai, create_vision_tool
from langgraph_mai.tools.relay_planner import RelayPlanner


class Album(AgentState):
    images: NotRequired[list[str]]


def planner(*messages):
    return scripted(*messages, AIMessage("Done."))


@pytest.fixture(scope="module")
def tool(demo_mai):
    return create_vision_tool(demo_mai)


def call_of(tool, **args):
    return {"type": "tool_call", "name": tool.name, "id": "1", "args": args}


def test_the_model_sees_the_question_and_the_images_but_no_runtime(tool):
    schema = tool.tool_call_schema.model_json_schema()
    assert set(schema["properties"]) == {"question", "images", "choices"}
    assert schema["required"] == ["question"]
    assert all(entry["description"] for entry in schema["properties"].values())


@pytest.mark.parametrize(
    ("name", "question"),
    [("chart", HIGHEST), ("shapes", "How many red shapes are there?"), ("squares", SQUARES)],
)
def test_without_an_agent_it_answers_by_reference(tool, demo_mai, run, name, question):
    message = run(tool, call_of(tool, question=question, images=[picture(name)]))
    expected = demo_mai.invoke({"question": question, "images": [picture(name)]})
    lines = [f"answer: {expected['answer']}", f"route: {expected['route']}"]
    assert message.content.splitlines()[:2] == lines
    assert message.artifact["images"] == [picture(name)]
    assert len(message.artifact["calls"]) == len(expected["calls"])


TWO = [shown("chart"), shown("squares")]
TALK = HumanMessage(HIGHEST)


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ({"messages": [shown("chart", HIGHEST)]}, {}),
        ({"messages": [shown("squares"), HumanMessage("Well?"), shown("chart")]}, {}),
        ({"messages": [shown("squares"), shown("chart"), TALK]}, {}),
        *(({"messages": TWO}, {"images": [n]}) for n in ("1", "[image 1]", " Image 1")),
        ({"messages": [*TWO, shown("chart")]}, {"images": ["1"]}),
        ({"messages": [TALK], "images": [picture("chart")]}, {}),
        ({"messages": [shown("squares"), TALK], "images": picture("chart")}, {}),
        ({"messages": [shown("chart")], "images": (picture("squares"),)}, {}),
        ({"messages": [shown("squares")], "images": picture("chart")}, {"images": ["1"]}),
        ({"messages": [TALK]}, {"images": [picture("chart")]}),
        ({"messages": [TALK]}, {"images": [data_uri("chart")]}),
    ],
)
def test_it_finds_the_picture(given, args, tool, run):
    agent = create_agent(planner(calls({"question": HIGHEST, **args})), [tool], state_schema=Album)
    (message,) = tool_messages(run(agent, given))
    assert message.content == "answer: red\nroute: direct"
    data = Path(picture("chart")).read_bytes()
    assert message.artifact["images"][0] in {picture("chart"), hashlib.sha256(data).hexdigest()}
    kept = json.dumps(message.model_dump())
    assert encoded("chart")[:60] not in kept
    assert len(kept) < 6000


@pytest.mark.parametrize(
    ("args", "state", "reason"),
    [
        ({"images": ["/nowhere.png"]}, {}, "nowhere.png"),
        ({"images": ["3"]}, {}, "no image 3: the conversation holds 1"),
        ({"images": ["9" * 5000]}, {}, "no image 999999999...: the"),
        ({"images": ["\u0669" * 5000]}, {}, "the conversation holds 1"),
        ({"images": ["https://x.test/a.png"]}, {}, "allow_fetch"),
        ({"question": " "}, {}, "question is empty"),
        *(({}, {"images": wrong}, "An image is a path, a URL") for wrong in ({"a": 1}, 5, [5])),
    ],
)
def test_what_cannot_be_asked_is_told_to_the_agent(args, state, reason, tool, run):
    agent = create_agent(planner(calls({"question": HIGHEST, **args})), [tool], state_schema=Album)
    result = run(agent, {"messages": [shown("chart")], **state})
    (message,) = tool_messages(result)
    assert message.status == "error"
    assert reason in message.content
    assert result["messages"][-1].text == "Done."


@pytest.mark.parametrize("kind", [None, "memory", "sqlite"])
def test_two_questions_at_once(kind, tool, tmp_path):
    asked = calls(
        {"question": HIGHEST, "images": [picture("chart")]},
        {"question": SQUARES, "images": [picture("squares")]},
    )
    alone = [tool.invoke(call["args"]) for call in asked.tool_calls]

    def check(saver):
        agent = create_agent(planner(asked), [tool], checkpointer=saver)
        result = agent.invoke({"messages": [HumanMessage("Look.")]}, THREAD)
        assert [message.content for message in tool_messages(result)] == alone

    if kind == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            check(saver)
    else:
        check(InMemorySaver() if kind == "memory" else None)


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_its_inner_steps_are_streamed(way, tool):
    agent = create_agent(planner(calls({"question": SQUARES})), [tool])
    given = {"messages": [shown("squares")]}
    options = {"stream_mode": ["messages", "updates", "custom", "tools"], "subgraphs": True}

    async def gather():
        return [event async for event in agent.astream(given, **options)]

    events = list(agent.stream(given, **options)) if way == "stream" else asyncio.run(gather())
    inner = [(mode, event) for namespace, mode, event in events if namespace]
    custom = [event for _, mode, event in events if mode == "custom"]
    assert {namespace[0].split(":")[0] for namespace, *_ in events if namespace} == {"tools"}
    nodes = [name for mode, event in inner if mode == "updates" for name in event]
    assert nodes[-2:] == ["reasoning_transfer", "respond"]
    assert custom[-1]["route"] == "transferred"
    assert {event["tool_call_id"] for event in custom} == {"call-0"}
    progress = [
        event["delta"]
        for _, mode, event in events
        if mode == "tools" and event["event"] == "tool-output-delta"
    ]
    assert progress == custom
    tags = {t for mode, e in inner if mode == "messages" for t in e[1].get("tags") or []}
    assert {"mai:small", "mai:large"} <= tags
    # No second answer beside the tool's message.
    assert "respond" not in {e[1]["langgraph_node"] for mode, e in inner if mode == "messages"}


def test_a_persons_review_reaches_through_the_agent(run):
    mai = create_mai(*models("transferred"), prompts=PROMPTS, review=True)
    asked = {"messages": [shown("chart", "Is it red?")]}
    script = calls({"question": "Is it red?"})
    agent = create_agent(planner(script), [create_vision_tool(mai)], checkpointer=InMemorySaver())
    assert run(agent, asked, THREAD)["__interrupt__"]
    (message,) = tool_messages(run(agent, Command(resume="no"), THREAD))
    assert message.content == "answer: no\nroute: reasoned\nfallback: review"

    without = create_agent(planner(script), [create_vision_tool(mai)])
    stopped = run(without, asked)
    assert stopped["__interrupt__"]
    assert tool_messages(stopped) == []
    with pytest.raises(RuntimeError, match="waits for a person"):
        run(create_vision_tool(mai), {"question": "Is it red?", "images": [picture("chart")]})


def test_the_agents_context_reaches_the_cascade(run):
    small, large = models("direct")
    tool = create_vision_tool(create_mai(small, large, prompts=PROMPTS))
    asked = calls({"question": "Is it red?"})
    agent = create_agent(planner(asked), [tool], context_schema=MAIContext)
    given = {"messages": [shown("chart", "Is it red?")]}
    run(agent, given, context=MAIContext(max_tokens_direct=7))
    assert small.calls[0]["max_tokens"] == 7


def test_choices_and_a_failed_model(run):
    small, large = models("direct")
    small.script["direct"], large.script["direct"] = RuntimeError("busy"), "B"
    tool = create_vision_tool(create_mai(small, large, prompts=PROMPTS), name="look")
    shown = {"images": [picture("chart")], "choices": ["red", "blue"]}
    asked = call_of(tool, question="Which?", **shown)
    message = run(tool, asked)
    assert message.content == "answer: B\nroute: direct\nfallback: large_direct"
    large.script["direct"] = RuntimeError("busy")
    message = run(tool, asked)
    assert message.status == "error"
    assert "busy" in message.content


def test_a_relay_runs_an_agent_without_a_language_model(tool, run):
    agent = create_agent(RelayPlanner(), [tool], checkpointer=InMemorySaver())
    result = run(agent, {"messages": [shown("squares", SQUARES)]}, THREAD)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].text == result["messages"][-2].text
    again = run(agent, {"messages": [shown("chart", HIGHEST)]}, THREAD)
    assert again["messages"][-1].text == "answer: red\nroute: direct"

    with pytest.raises(ValueError, match="no tool that takes a `question`"):
        RelayPlanner().invoke("Who?")
    for messages in ([HumanMessage(" ")], []):
        asked = RelayPlanner().bind_tools([tool]).invoke(messages)
        assert asked.text == "Ask a question about an image."


def test_a_supervisors_tool_passes_images_by_reference(tool):
    looks = [calls({"question": SQUARES}), AIMessage("The tool says four.")]
    vision = create_agent(scripted(*looks), [tool], state_schema=Album, name="vision")

    @as_tool
    def ask_vision_agent(question: str, runtime: ToolRuntime) -> str:
        """Have the vision agent answer a question about the pictures."""
        asked = {"messages": [HumanMessage(question)], "images": runtime.state["images"]}
        return vision.invoke(asked, runtime.config)["messages"][-2].content

    delegates = calls({"question": SQUARES}, name="ask_vision_agent")
    supervisor = create_agent(
        planner(delegates), [ask_vision_agent], state_schema=Album, checkpointer=InMemorySaver()
    )
    given = {"messages": [HumanMessage(SQUARES)], "images": [picture("squares")]}
    stream = supervisor.stream(given, THREAD, stream_mode="custom", subgraphs=True)
    assert [event["route"] for _, event in stream if event["event"] == "route"] == ["transferred"]
    (message,) = tool_messages(supervisor.get_state(THREAD).values)
    assert message.content == "answer: 4\nroute: transferred"


def test_a_deep_agents_subagent_finds_the_declared_images(tool):
    class DeepAlbum(DeepAgentState):
        images: NotRequired[list[str]]

    looks = scripted(calls({"question": SQUARES}), AIMessage("The tool says four."))
    looker = {
        "name": "looker",
        "description": "Looks at pictures.",
        "system_prompt": "Look.",
        "tools": [tool],
        "model": looks,
    }
    task = calls({"description": SQUARES, "subagent_type": "looker"}, name="task")
    agent = create_deep_agent(planner(task), subagents=[looker], state_schema=DeepAlbum)
    result = agent.invoke({"messages": [HumanMessage(SQUARES)], "images": [picture("squares")]})
    assert looks.prompts[-1][-1].content == "answer: 4\nroute: transferred"
    assert [m.text for m in result["messages"][-2:]] == ["The tool says four.", "Done."]
