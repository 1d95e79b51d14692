"""The tool inside and outside of agents; the planner is scripted, the vision side is real."""

import asyncio
import base64
import json
from pathlib import Path
from typing import NotRequired

import pytest
from fakes import PROMPTS, ScriptedPlanner, models
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from langgraph_mai import MAIContext, create_mai, create_vision_tool, load_pair
from langgraph_mai.tools.relay_planner import RelayPlanner

PICTURES = Path(__file__).parents[2] / "demo" / "pictures"
THREAD = {"configurable": {"thread_id": "1"}}
HIGHEST = "Which bar is the highest?"
SQUARES = "How many squares can you see in the top row?"


class Album(AgentState):
    images: NotRequired[list[str]]


def calls(*arguments):
    asked = [
        {"name": "ask_about_images", "args": args, "id": f"call-{number}"}
        for number, args in enumerate(arguments)
    ]
    return AIMessage("", tool_calls=asked)


def planner(*messages):
    return ScriptedPlanner(said=[*messages, AIMessage("Done.")])


@pytest.fixture(scope="module")
def mai():
    pair = load_pair()
    return create_mai(pair.small, pair.large, prompts=pair.prompts)


@pytest.fixture(scope="module")
def tool(mai):
    return create_vision_tool(mai)


def picture(name):
    return str(PICTURES / f"{name}.png")


def shown(name, text="Look."):
    """A message with the picture itself inside."""
    encoded = base64.b64encode(Path(picture(name)).read_bytes()).decode()
    block = {"type": "image", "base64": encoded, "mime_type": "image/png"}
    return HumanMessage([{"type": "text", "text": text}, block])


def tool_messages(result):
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


def test_the_model_sees_the_question_and_the_images_but_no_runtime(tool):
    schema = tool.tool_call_schema.model_json_schema()
    assert set(schema["properties"]) == {"question", "images", "choices"}
    assert schema["required"] == ["question"]
    assert all(entry["description"] for entry in schema["properties"].values())


@pytest.mark.parametrize(
    ("name", "question", "route"),
    [
        ("chart", HIGHEST, "direct"),
        ("shapes", "How many red shapes are there in the picture?", "reasoned"),
        ("squares", SQUARES, "transferred"),
    ],
)
def test_without_an_agent_it_answers_by_reference(tool, mai, run, name, question, route):
    call = {
        "type": "tool_call",
        "name": tool.name,
        "id": "1",
        "args": {"question": question, "images": [picture(name)]},
    }
    message = run(tool, call)
    expected = mai.invoke({"question": question, "images": [picture(name)]})
    assert message.content.splitlines() == [
        f"answer: {expected['answer']}",
        f"route: {route}",
    ]
    assert message.artifact["answer"] == expected["answer"]
    assert message.artifact["images"] == [picture(name)]
    assert len(message.artifact["calls"]) == len(expected["calls"])


@pytest.mark.parametrize(
    ("given", "args", "seen"),
    [
        ({"messages": [shown("chart", HIGHEST)]}, {}, "chart"),
        ({"messages": [shown("squares"), HumanMessage("Well?"), shown("chart")]}, {}, "chart"),
        ({"messages": [shown("chart"), HumanMessage(HIGHEST)]}, {}, "chart"),
        ({"messages": [shown("chart"), shown("squares")]}, {"images": ["1"]}, "chart"),
        ({"messages": [HumanMessage(HIGHEST)], "images": [picture("chart")]}, {}, "chart"),
        ({"messages": [shown("squares")], "images": [picture("chart")]}, {}, "chart"),
        ({"messages": [HumanMessage(HIGHEST)], "images": picture("chart")}, {}, "chart"),
        ({"messages": [HumanMessage(HIGHEST)], "images": (picture("chart"),)}, {}, "chart"),
        ({"messages": [shown("squares")], "images": picture("chart")}, {"images": ["1"]}, "chart"),
        ({"messages": [HumanMessage(HIGHEST)]}, {"images": [picture("chart")]}, "chart"),
    ],
    ids=[
        "message",
        "latest",
        "earlier",
        "number",
        "declared",
        "declared first",
        "declared alone",
        "declared as a tuple",
        "number of the declared",
        "path",
    ],
)
def test_it_finds_the_picture(given, args, seen, tool, run):
    planned = planner(calls({"question": HIGHEST, **args}))
    agent = create_agent(planned, [tool], state_schema=Album)
    (message,) = tool_messages(run(agent, given))
    alone = tool.invoke({"question": HIGHEST, "images": [picture(seen)]})
    assert message.content == alone
    assert message.status == "success"


def test_no_picture_is_in_the_tools_message(tool, run):
    agent = create_agent(planner(calls({"question": SQUARES})), [tool])
    given = shown("squares")
    (message,) = tool_messages(run(agent, {"messages": [given]}))
    assert isinstance(message.content, str)
    kept = json.dumps(message.model_dump())
    encoded = given.content[1]["base64"]
    assert encoded[:60] not in kept
    assert len(kept) < 6000


def test_a_data_uri_of_the_planner_does_not_stay_in_the_artifact(tool):
    data = base64.b64encode(Path(picture("chart")).read_bytes()).decode()
    call = {
        "type": "tool_call",
        "name": tool.name,
        "id": "1",
        "args": {"question": HIGHEST, "images": [f"data:image/png;base64,{data}"]},
    }
    assert tool.invoke(call).artifact["images"] == ["data"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"question": "Which?", "images": ["/nowhere.png"]}, "nowhere.png"),
        ({"question": "Which?", "images": ["3"]}, "no image 3: the conversation holds 1"),
        ({"question": "Which?", "images": ["9" * 5000]}, "no image 999999999...: the"),
        ({"question": "Which?", "images": ["\u0669" * 5000]}, "the conversation holds 1"),
        ({"question": "Which?", "images": ["https://x.test/a.png"]}, "allow_fetch"),
        ({"question": " "}, "question is empty"),
    ],
)
def test_what_cannot_be_asked_is_told_to_the_agent(args, said, tool, run):
    agent = create_agent(planner(calls(args)), [tool])
    result = run(agent, {"messages": [shown("chart")]})
    (message,) = tool_messages(result)
    assert message.status == "error"
    assert said in message.content
    assert result["messages"][-1].text == "Done."


@pytest.mark.parametrize("images", [{"a": 1}, [{"a": 1}], 5, [picture("chart"), 5]], ids=str)
def test_what_the_state_holds_instead_of_pictures_is_told_to_the_agent(images, tool, run):
    agent = create_agent(planner(calls({"question": HIGHEST})), [tool], state_schema=Album)
    result = run(agent, {"messages": [HumanMessage(HIGHEST)], "images": images})
    (message,) = tool_messages(result)
    assert message.status == "error"
    assert message.content.startswith("An image is a path, a URL")


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
    options = {"stream_mode": ["messages", "updates", "custom"], "subgraphs": True}

    async def gather():
        return [event async for event in agent.astream(given, **options)]

    events = list(agent.stream(given, **options)) if way == "stream" else asyncio.run(gather())
    inner = [(mode, event) for namespace, mode, event in events if namespace]
    assert {namespace[0].split(":")[0] for namespace, *_ in events if namespace} == {"tools"}
    nodes = [name for mode, event in inner if mode == "updates" for name in event]
    assert nodes[-2:] == ["reasoning_transfer", "respond"]
    said = [e for mode, e in inner if mode == "custom"]
    assert said[-1]["route"] == "transferred"
    tags = {t for mode, e in inner if mode == "messages" for t in e[1].get("tags") or []}
    assert {"mai:small", "mai:large"} <= tags


def test_a_persons_review_reaches_through_the_agent(run):
    mai = create_mai(*models("transferred"), prompts=PROMPTS, review=True)
    planned = planner(calls({"question": "Is it red?"}))
    agent = create_agent(planned, [create_vision_tool(mai)], checkpointer=InMemorySaver())
    stopped = run(agent, {"messages": [HumanMessage("Is it red?")]}, THREAD)
    assert stopped["__interrupt__"][0].value["small"] == "no"
    (message,) = tool_messages(run(agent, Command(resume="no"), THREAD))
    assert message.content == "answer: no\nroute: reasoned"


def test_alone_it_makes_up_no_answer_where_a_person_is_asked(run):
    mai = create_mai(*models("transferred"), prompts=PROMPTS, review=True)
    with pytest.raises(RuntimeError, match="waits for a person"):
        run(create_vision_tool(mai), {"question": "Is it red?"})


def test_an_agent_without_a_checkpointer_ends_with_the_question_to_the_person(run):
    mai = create_mai(*models("transferred"), prompts=PROMPTS, review=True)
    agent = create_agent(planner(calls({"question": "Is it red?"})), [create_vision_tool(mai)])
    stopped = run(agent, {"messages": [HumanMessage("Is it red?")]})
    assert stopped["__interrupt__"][0].value["small"] == "no"
    assert tool_messages(stopped) == []


def test_the_agents_context_reaches_the_cascade(run):
    small, large = models("direct")
    mai = create_mai(small, large, prompts=PROMPTS)
    agent = create_agent(
        planner(calls({"question": "Is it red?"})),
        [create_vision_tool(mai)],
        context_schema=MAIContext,
    )
    given = {"messages": [HumanMessage("Is it red?")]}
    run(agent, given, context=MAIContext(max_tokens_direct=7))
    assert small.calls[0]["max_tokens"] == 7


def test_choices_and_a_failed_model(run):
    small, large = models("direct")
    small.script["direct"], large.script["direct"] = RuntimeError("busy"), "B"
    tool = create_vision_tool(create_mai(small, large, prompts=PROMPTS), name="look")
    given = {"question": "Which?", "choices": ["red", "blue"]}
    message = run(tool, {"type": "tool_call", "name": "look", "id": "1", "args": given})
    assert message.content == "answer: B\nroute: direct"
    large.script["direct"] = RuntimeError("busy")
    message = run(tool, {"type": "tool_call", "name": "look", "id": "1", "args": given})
    assert message.status == "error"
    assert "busy" in message.content


def test_a_relay_runs_an_agent_without_a_language_model(tool, run):
    agent = create_agent(RelayPlanner(), [tool], checkpointer=InMemorySaver())
    result = run(agent, {"messages": [shown("squares", SQUARES)]}, THREAD)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].text == result["messages"][-2].text
    again = run(agent, {"messages": [shown("chart", HIGHEST)]}, THREAD)
    assert again["messages"][-1].text == tool.invoke(
        {"question": HIGHEST, "images": [picture("chart")]}
    )


def test_a_relay_without_a_tool_or_a_question_says_so(tool):
    with pytest.raises(ValueError, match="no tool that takes a `question`"):
        RelayPlanner().invoke("Who?")
    for messages in ([HumanMessage(" ")], []):
        asked = RelayPlanner().bind_tools([tool]).invoke(messages)
        assert asked.text == "Ask a question about an image."
