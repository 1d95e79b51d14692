"""Two questions about one image on one thread: the image is sent once."""

import sys
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import create_mai, load_pair

pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts, checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}

pictures = sys.argv[1:] or [str(Path(__file__).parents[1] / "demo" / "pictures" / "shapes.png")]
images = [{"type": "image_url", "image_url": {"url": path}} for path in pictures]
first = HumanMessage([*images, {"type": "text", "text": "Is there a red circle?"}])
mai.invoke({"messages": [first]}, thread)
# A question without an image is about the latest images of the conversation.
result = mai.invoke({"messages": [HumanMessage("How many circles are there?")]}, thread)

for message in result["messages"]:
    print(f"{message.type}: {message.text}")
