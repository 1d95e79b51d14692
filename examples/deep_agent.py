"""A deep agent (deepagents) that looks at pictures, itself and through a subagent.

Subagents get the declared `images` of the state, and no messages: the tool finds the pictures
there. Without a language model a relay plans, and asks the tool at once; `LANGGRAPH_MAI_PLANNER`
names a model that plans for itself, and may delegate to the subagent `looker`.
"""

import os
import sys
from pathlib import Path
from typing import NotRequired

from deepagents import DeepAgentState, create_deep_agent
from langchain_core.messages import HumanMessage

from langgraph_mai import create_mai, create_vision_tool, load_pair
from langgraph_mai.tools.relay_planner import RelayPlanner


class Album(DeepAgentState):
    """A conversation about pictures."""

    images: NotRequired[list[str]]


pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
look = create_vision_tool(mai)
agent = create_deep_agent(
    os.environ.get("LANGGRAPH_MAI_PLANNER") or RelayPlanner(),
    [look],
    system_prompt="You answer questions about pictures.",
    subagents=[
        {
            "name": "looker",
            "description": "Looks at the pictures of this conversation and answers a question.",
            "system_prompt": "Answer with what ask_about_images says.",
            "tools": [look],
        }
    ],
    state_schema=Album,
)

shown = Path(__file__).parents[1] / "demo" / "pictures" / "chart.png"
given = sys.argv[1:] or [str(shown), "Which bar is the highest?"]
*pictures, question = given
result = agent.invoke({"messages": [HumanMessage(question)], "images": pictures})
for message in result["messages"]:
    print(f"{message.type}: {message.text or message.tool_calls[0]['args']}")
