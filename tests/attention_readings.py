"""Readings with weights that a test chose, one word a token."""

import re

import numpy as np
from questions import question

from langgraph_mai.benchmarks.attention.measure import MeasuredPass, Reading
from langgraph_mai.models.attention import Attention


def attention(reasoning: str, heads) -> Attention:
    """Weights head by head, shape (layers, heads, words)."""
    heads = np.asarray(heads, dtype=np.float32)
    spans = tuple(found.span() for found in re.finditer(r"\s*\S+", reasoning))
    return Attention(
        token_ids=tuple(range(len(spans))),
        spans=spans,
        special=tuple("<end>" in reasoning[start:end] for start, end in spans),
        layers=tuple(range(1, len(heads) + 1)),
        weights=heads.mean(axis=1),
        heads=heads,
        query=100,
        input_tokens=101,
        cached_tokens=0,
        seconds=0.5,
    )


def reading(name: str, source: str, reasoning: str, heads, share=0.8, **changed) -> Reading:
    measured = MeasuredPass.of(reasoning, attention(reasoning, heads), share)
    return Reading(question(name, **changed), source, measured)
