"""Two questions on one thread: the conversation is remembered, and each run starts afresh."""

import sys
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import create_mai, load_pair

pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts, checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}

pictures = sys.argv[1:] or [str(Path(__file__).parents[1] / "demo" / "pictures" / "shapes.png")]
for question in ("Is there a red circle?", "How many circles are there?"):
    images = [{"type": "image_url", "image_url": {"url": path}} for path in pictures]
    message = HumanMessage([*images, {"type": "text", "text": question}])
    result = mai.invoke({"messages": [message]}, thread)

for message in result["messages"]:
    print(f"{message.type}: {message.text}")
