"""The steps of the graph, one file each, and what they share: state, prompts, model calls."""
