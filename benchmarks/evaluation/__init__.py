"""Runs strategies on a benchmark: each distinct model call once, every result kept."""
