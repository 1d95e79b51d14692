"""The cascade as a node of your own graph: it fills the keys that both graphs share."""

import sys
from pathlib import Path

from langgraph.graph import START, StateGraph

from langgraph_mai import MAIState, create_mai, load_pair

pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
graph = StateGraph(MAIState).add_node("mai", mai).add_edge(START, "mai").compile()

shown = Path(__file__).parents[1] / "demo" / "pictures" / "chart.png"
*images, question = sys.argv[1:] or [str(shown), "Which bar is the highest?"]
result = graph.invoke({"question": question, "images": images})
print(f"{result['answer']} ({result['route']})")
