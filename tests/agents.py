"""Agents that look at pictures: what people show, what scripted planners say."""

import base64
from pathlib import Path

from fakes import ScriptedPlanner
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

PICTURES = Path(__file__).parents[1] / "demo" / "pictures"
THREAD = {"configurable": {"thread_id": "1"}}
HIGHEST = "Which bar is the highest?"
SQUARES = "How many squares can you see in the picture?"


def picture(name):
    return str(PICTURES / f"{name}.png")


def encoded(name):
    return base64.b64encode(Path(picture(name)).read_bytes()).decode()


def data_uri(name):
    return f"data:image/png;base64,{encoded(name)}"


def block(name):
    """A picture as chat pages send it."""
    return {"type": "image", "mimeType": "image/png", "data": encoded(name)}


def shown(name, text="Look."):
    """A message with the picture itself inside."""
    return HumanMessage([{"type": "text", "text": text}, block(name)])


def calls(*arguments, name="ask_about_images"):
    asked = [{"name": name, "args": args, "id": f"call-{n}"} for n, args in enumerate(arguments)]
    return AIMessage("", tool_calls=asked)


def planner(*messages):
    return ScriptedPlanner(said=list(messages))


def tool_messages(result):
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]
