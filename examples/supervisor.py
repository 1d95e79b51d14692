"""A supervisor that delegates: pictures go to a vision agent, whose tool is the cascade.

Agents that hand on only what they declare still hand on `images`: references, not pixels.
Without a language model, relays plan; `LANGGRAPH_MAI_PLANNER` names a model in their place.
"""

import os
import sys
from pathlib import Path
from typing import NotRequired

from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage

from langgraph_mai import create_mai, create_vision_tool, load_pair
from langgraph_mai.tools.relay_planner import RelayPlanner


class Album(AgentState):
    """A conversation about pictures."""

    images: NotRequired[list[str]]


pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
planner = os.environ.get("LANGGRAPH_MAI_PLANNER") or RelayPlanner()
vision_agent = create_agent(planner, [create_vision_tool(mai)], state_schema=Album, name="vision")


@tool
def ask_vision_agent(question: str, runtime: ToolRuntime) -> str:
    """Have the vision agent answer a question about the pictures of this conversation."""
    asked = {"messages": [HumanMessage(question)], "images": runtime.state["images"]}
    return vision_agent.invoke(asked, runtime.config)["messages"][-1].text


supervisor = create_agent(planner, [ask_vision_agent], state_schema=Album, name="supervisor")

shown = Path(__file__).parents[1] / "demo" / "pictures" / "shapes.png"
given = sys.argv[1:] or [str(shown), "How many red shapes are there in the picture?"]
*pictures, question = given
result = supervisor.invoke({"messages": [HumanMessage(question)], "images": pictures})
for message in result["messages"]:
    print(f"{message.type}: {message.text or message.tool_calls[0]['args']}")
