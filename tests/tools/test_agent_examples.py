"""Agents that delegate: a supervisor, and deepagents; the planners are scripted."""

from pathlib import Path
from typing import NotRequired

import pytest
from deepagents import DeepAgentState, create_deep_agent
from fakes import ScriptedPlanner
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime
from langchain.tools import tool as as_tool
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import create_mai, create_vision_tool, load_pair

SQUARES = "How many squares can you see in the top row?"
PICTURE = str(Path(__file__).parents[2] / "demo" / "pictures" / "squares.png")


def planner(*messages):
    return ScriptedPlanner(said=list(messages))


def call(name, **args):
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{name}"}])


@pytest.fixture(scope="module")
def look():
    pair = load_pair()
    return create_vision_tool(create_mai(pair.small, pair.large, prompts=pair.prompts))


@pytest.fixture(scope="module")
def expected(look):
    return look.invoke({"question": SQUARES, "images": [PICTURE]})


def test_a_supervisor_delegates_to_a_vision_agent(look, expected):
    class Album(AgentState):
        images: NotRequired[list[str]]

    vision = create_agent(
        planner(call("ask_about_images", question=SQUARES), AIMessage("The tool says four.")),
        [look],
        state_schema=Album,
        name="vision",
    )
    seen = []

    @as_tool
    def ask_vision_agent(question: str, runtime: ToolRuntime) -> str:
        """Have the vision agent answer a question about the pictures."""
        asked = {"messages": [HumanMessage(question)], "images": runtime.state["images"]}
        result = vision.invoke(asked, runtime.config)
        seen.append(result["messages"][-2].content)
        return result["messages"][-1].text

    supervisor = create_agent(
        planner(call("ask_vision_agent", question=SQUARES), AIMessage("There are four.")),
        [ask_vision_agent],
        state_schema=Album,
        checkpointer=InMemorySaver(),
    )
    given = {"messages": [HumanMessage(SQUARES)], "images": [PICTURE]}
    config = {"configurable": {"thread_id": "1"}}
    routes = [
        event["route"]
        for _, event in supervisor.stream(given, config, stream_mode="custom", subgraphs=True)
        if event["event"] == "route"
    ]
    assert routes == ["transferred"]
    assert seen == [expected]
    messages = supervisor.get_state(config).values["messages"]
    assert [message.text for message in messages[-2:]] == ["The tool says four.", "There are four."]


@pytest.mark.parametrize("delegates", [False, True])
def test_a_deep_agent_looks_itself_or_through_a_subagent(delegates, look, expected):
    class Album(DeepAgentState):
        images: NotRequired[list[str]]

    looks = [call("ask_about_images", question=SQUARES), AIMessage("The tool says four.")]
    looker = {
        "name": "looker",
        "description": "Looks at pictures.",
        "system_prompt": "Look.",
        "tools": [look],
        "model": planner(*looks),
    }
    task = call("task", description=SQUARES, subagent_type="looker")
    plan = [task, AIMessage("There are four.")] if delegates else looks
    agent = create_deep_agent(planner(*plan), [look], subagents=[looker], state_schema=Album)
    given = {"messages": [HumanMessage(SQUARES)], "images": [PICTURE]}
    said, result = [], None
    for namespace, mode, event in agent.stream(
        given, stream_mode=["values", "custom"], subgraphs=True
    ):
        if mode == "custom":
            said.append(event)
        elif not namespace:
            result = event
    assert [event["route"] for event in said if event["event"] == "route"] == ["transferred"]
    last = [message.text for message in result["messages"][-2:]]
    if delegates:
        assert last == ["The tool says four.", "There are four."]
    else:
        assert last == [expected, "The tool says four."]
