"""MMBench's circular evaluation: a question counts where every rotation of its choices is right."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ..question import BenchmarkQuestion

ROTATION = 1_000_000
"""Rotation k of the question with index i has the index i + k * ROTATION."""


def circular_grades(
    questions: Sequence[BenchmarkQuestion], grades: Mapping[str, float]
) -> dict[str, float]:
    """1 or 0 for each question all of whose rotations are there and graded.

    Args:
        questions: Questions whose ids are MMBench's indices.
        grades: The grade of each rotation, by id.

    Returns:
        By the id of the unrotated question. Questions with a rotation that is not in the set, or
        not graded, are left out: nothing can be said of them.
    """
    rotations: dict[str, list[BenchmarkQuestion]] = defaultdict(list)
    for question in questions:
        rotations[base_index(question.id)].append(question)
    return {
        base: float(all(grades[one.id] == 1 for one in group))
        for base, group in rotations.items()
        if len(group) == len(group[0].choices) and all(one.id in grades for one in group)
    }


def base_index(index: str) -> str:
    """The index of the unrotated question."""
    return str(int(index) % ROTATION)
