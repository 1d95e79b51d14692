"""The demo pair from nothing: `python -m langgraph_mai.demo.training --out DIR`."""
