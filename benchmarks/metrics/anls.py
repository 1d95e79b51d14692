"""InfographicVQA's metric: average normalised Levenshtein similarity."""

from collections.abc import Sequence

FLOOR = 0.5
"""A similarity below it counts as 0."""


def anls(prediction: str, answers: Sequence[str]) -> float:
    """Similarity to the nearest accepted answer, by the script of the Robust Reading Competition.

    Case and runs of blanks make no difference to the distance, but outer and inner blanks count in
    the length that it is divided by.

    Returns:
        From `FLOOR` to 1, or 0.
    """
    nearest = max((_similarity(prediction, answer) for answer in answers), default=0.0)
    return nearest if nearest >= FLOOR else 0.0


def _similarity(prediction: str, answer: str) -> float:
    from rapidfuzz.distance import Levenshtein

    length = max(len(prediction), len(answer))
    if not length:
        return 1.0
    a, b = (" ".join(text.lower().split()) for text in (prediction, answer))
    return 1 - Levenshtein.distance(a, b) / length
