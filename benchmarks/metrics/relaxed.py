"""ChartQA's relaxed accuracy."""

import ast
from collections.abc import Sequence

TOLERANCE = 0.05
"""How far a number may be from the right one, as a share of it."""


def relaxed_match(prediction: str, answer: str) -> bool:
    """The benchmark's rule: within 5% of the right number, else the same text but for case.

    Percentages are divided by 100; a right 0 wants the same text. Years get the 5% too.
    """
    stated, right = _number(prediction), _number(answer)
    if stated is not None and right:
        return abs(stated - right) / abs(right) <= TOLERANCE
    return prediction.lower() == answer.lower()


def vlmevalkit_answers(answer: str) -> Sequence[str]:
    """The accepted answers as VLMEvalKit has them: a Python list in the data are alternatives."""
    try:
        value = ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return (answer,)
    return [str(item) for item in value] if isinstance(value, list) else (answer,)


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None
