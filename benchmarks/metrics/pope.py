"""POPE's figures: how well "is there a ..." is answered, where yes is the positive class."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ..statistics import Interval, f1_interval, wilson
from .grading import Protocol, Score
from .readers import YesNo


def pope_scores(
    protocol: Protocol, pairs: Sequence[tuple[str, YesNo | None]], group: Mapping[str, str]
) -> list[Score]:
    """Compute accuracy, precision, recall, F1 and yes ratio of one part of POPE.

    typed: also the share of outputs that are read as neither. lmms: recall leaves out what is
    neither, and the yes ratio is that of the right answers. vlmevalkit: an undefined ratio is 0,
    and there is no yes ratio. Under typed and strict an undefined ratio has no value; an always-no
    model has no precision, recall 0 and F1 0.

    Args:
        protocol: Whose readings the predictions are.
        pairs: The right answer and the prediction for each question.
        group: The part that they are from.
    """
    # Predictions "yes", "no" or None (neither), where yes is right and where no is.
    where_yes = Counter(predicted for right, predicted in pairs if right == "yes")
    where_no = Counter(predicted for right, predicted in pairs if right != "yes")
    hits, predicted_yes = where_yes["yes"], where_yes["yes"] + where_no["yes"]
    right_yes = where_yes.total() - (where_yes[None] if protocol == "lmms" else 0)
    yes_count = where_yes.total() if protocol == "lmms" else predicted_yes
    proportions = {
        "accuracy": (hits + where_no["no"], len(pairs)),
        "precision": (hits, predicted_yes),
        "recall": (hits, right_yes),
        "yes_ratio": (yes_count, len(pairs)),
    }
    if protocol == "typed":
        proportions["unread"] = (where_yes[None] + where_no[None], len(pairs))
    if protocol == "vlmevalkit":
        del proportions["yes_ratio"]

    def score(metric: str, value: float | None, interval: Interval) -> Score:
        if value is None and len(pairs) and protocol in ("lmms", "vlmevalkit"):
            value = 0.0
        return Score(protocol, metric, value, *interval, len(pairs), group)

    scores = [
        score(metric, part / whole if whole else None, wilson(part, whole))
        for metric, (part, whole) in proportions.items()
    ]
    # F1 is 2 TP / (2 TP + FP + FN), which is defined where precision or recall is not.
    f1 = 2 * hits / (predicted_yes + right_yes) if predicted_yes + right_yes else None
    return [*scores, score("f1", f1, f1_interval(wilson(hits, predicted_yes + right_yes - hits)))]
