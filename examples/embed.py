"""The cascade as a node of your own graph: it fills the keys that both graphs share."""

import sys

from langgraph.graph import START, StateGraph

from langgraph_mai import MAIState, create_mai, load_pair

pair = load_pair("demo")
mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
graph = StateGraph(MAIState).add_node("mai", mai).add_edge(START, "mai").compile()

*images, question = sys.argv[1:] or ["How many fingers has a hand?"]
result = graph.invoke({"question": question, "images": images})
print(f"{result['answer']} ({result['route']})")
