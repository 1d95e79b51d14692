"""Scores of a benchmark under named protocols, side by side."""

from .scores import PROTOCOLS, Protocol, Score
from .scoring import METRICS, grades, missing, score

__all__ = ["METRICS", "PROTOCOLS", "Protocol", "Score", "grades", "missing", "score"]
