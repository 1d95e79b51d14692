"""Scores of a benchmark under named protocols, side by side."""

from .scores import PROTOCOLS, Protocol, Score
from .scoring import grades, missing, score

__all__ = ["PROTOCOLS", "Protocol", "Score", "grades", "missing", "score"]
