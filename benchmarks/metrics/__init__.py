"""Scores of a benchmark under named protocols, side by side."""

from .scores import PROTOCOLS, Protocol, Score
from .scoring import METRICS, grades, missing, outcomes, score
from .typed import Outcome

__all__ = [
    "METRICS",
    "PROTOCOLS",
    "Outcome",
    "Protocol",
    "Score",
    "grades",
    "missing",
    "outcomes",
    "score",
]
