"""Scores of a benchmark under named protocols, side by side."""

from .grading import PROTOCOLS, Outcome, Protocol, Score
from .scoring import METRICS, check_scoring, grades, headline, outcomes, score

__all__ = [
    "METRICS",
    "PROTOCOLS",
    "Outcome",
    "Protocol",
    "Score",
    "check_scoring",
    "grades",
    "headline",
    "outcomes",
    "score",
]
