"""A person decides where both models differ: the run waits, and goes on with what the person says.

Give an image, a question and the person's answer; an empty answer leaves it to the models.
"""

import sys
from pathlib import Path

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_mai import create_mai, load_pair

pair = load_pair("demo")
mai = create_mai(
    pair.small, pair.large, prompts=pair.prompts, review=True, checkpointer=InMemorySaver()
)
thread = {"configurable": {"thread_id": "1"}}

shown = Path(__file__).parents[1] / "demo" / "pictures" / "squares.png"
given = sys.argv[1:] or [str(shown), "How many squares can you see in the picture?", "4"]
image, question, person = (*given, "")[:3]
result = mai.invoke({"question": question, "images": [image]}, thread)
if waiting := result.get("__interrupt__"):
    asked = waiting[0].value
    print(f"The small model says {asked['small']}, the large one {asked['large']}.")
    print(f"The small one's reasoning: {asked['reasoning']}")
    result = mai.invoke(Command(resume=person), thread)
print(f"{result['answer']} ({result['route']}, fallback: {result['fallback']})")
