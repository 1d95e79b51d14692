"""An agent that looks at pictures: LangChain's `create_agent` with the cascade as its tool.

Without a language model a relay plans: it hands the question on. `LANGGRAPH_MAI_PLANNER` names a
model for `init_chat_model` that plans for itself ("openai:gpt-5", "ollama:qwen3").
"""

import os
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from langgraph_mai import create_mai, create_vision_tool, load_pair
from langgraph_mai.tools.relay_planner import RelayPlanner

pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
planner = os.environ.get("LANGGRAPH_MAI_PLANNER") or RelayPlanner()
agent = create_agent(planner, [create_vision_tool(mai)])

shown = Path(__file__).parents[1] / "demo" / "pictures" / "squares.png"
given = sys.argv[1:] or [str(shown), "How many squares can you see in the picture?"]
*pictures, question = given
images = [{"type": "image_url", "image_url": {"url": path}} for path in pictures]
message = HumanMessage([*images, {"type": "text", "text": question}])

for namespace, mode, event in agent.stream(
    {"messages": [message]}, stream_mode=["updates", "custom"], subgraphs=True
):
    if mode == "custom":
        print("  inside:", {key: event[key] for key in event if key != "event"})
    elif not namespace:
        for node, update in event.items():
            said = update["messages"][-1]
            print(f"{node}: {said.text or said.tool_calls[0]['args']}")
