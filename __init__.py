"""Multi-agent inference for vision-language models, as a LangGraph graph."""
