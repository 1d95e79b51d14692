"""Scores of a benchmark under named protocols, side by side."""

from .grading import PROTOCOLS, Protocol, Score
from .scoring import METRICS, check_scoring, grades, headline, score

__all__ = [
    "METRICS",
    "PROTOCOLS",
    "Protocol",
    "Score",
    "check_scoring",
    "grades",
    "headline",
    "score",
]
