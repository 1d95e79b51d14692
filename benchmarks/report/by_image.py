"""Intervals of scores whose questions share images: those are right or wrong together."""

from collections.abc import Hashable, Mapping, Sequence

from ..estimates import Estimate, mean, ratio
from ..metrics.grading import YES_NO
from ..question import BenchmarkQuestion


def f1_by_image(
    questions: Sequence[BenchmarkQuestion],
    texts: Mapping[str, str],
    protocol: str,
    clusters: Sequence[Hashable],
) -> Estimate:
    """POPE's F1, drawn by image.

    Args:
        questions: Those that have a text.
        texts: Outputs by question id.
        protocol: Whose reading of the outputs counts.
        clusters: What each question belongs to.
    """
    reading = {str(name): read for name, read in YES_NO.items()}[protocol]
    above, below = [], []
    for question in questions:
        said = reading(question, texts[question.id])
        right_yes = question.answers[0].strip().lower() == "yes"
        hit = right_yes and said == "yes"
        missed = right_yes and not hit and not (protocol == "lmms" and said is None)
        above.append(2.0 * hit)
        below.append(2.0 * hit + missed + (said == "yes" and not right_yes))
    return ratio(above, below, clusters)


def widened(score: Estimate, worth: Sequence[float], clusters: Sequence[Hashable]) -> Estimate:
    """A mean score with its interval drawn by image.

    Args:
        score: The score, with an interval drawn by question.
        worth: What each output is worth.
        clusters: What each question belongs to.
    """
    return prefer(score, mean(worth, clusters))


def prefer(score: Estimate, drawn: Estimate) -> Estimate:
    """The estimate that was drawn by image, if it is one of the same figure and has a width."""
    if score.value is None or drawn.value is None or drawn.low == drawn.high:
        return score
    return drawn if abs(score.value - drawn.value) < 1e-9 else score
