"""POPE's figures: how well "is there a ..." is answered, where yes is the positive class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .intervals import f1_interval, wilson
from .scores import Protocol, Score
from .yes_no import YesNo


@dataclass(frozen=True, slots=True)
class Predictions:
    """What was predicted for questions whose answer is yes, and for those whose answer is no.

    Attributes:
        yes: Predictions where yes is right: how many "yes", "no" and None (neither).
        no: The same where no is right.
    """

    yes: Counter[YesNo | None]
    no: Counter[YesNo | None]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, YesNo | None]]) -> "Predictions":
        """Count pairs of right answer and prediction."""
        return cls(
            Counter(said for right, said in pairs if right == "yes"),
            Counter(said for right, said in pairs if right != "yes"),
        )


def pope_scores(
    protocol: Protocol, pairs: Sequence[tuple[str, YesNo | None]], group: Mapping[str, str]
) -> list[Score]:
    """Accuracy, precision, recall, F1 and yes ratio of one part of POPE.

    typed: also the share of outputs that are read as neither. lmms: recall leaves out what is
    neither, and the yes ratio is that of the right answers. vlmevalkit: an undefined ratio is 0,
    and there is no yes ratio. Under typed and strict an undefined ratio has no value; an always-no
    model has no precision, recall 0 and F1 0.

    Args:
        protocol: Whose readings the predictions are.
        pairs: The right answer and the prediction for each question.
        group: The part that they are from.
    """
    seen = Predictions.of(pairs)
    hits, said_yes = seen.yes["yes"], seen.yes["yes"] + seen.no["yes"]
    right_yes = seen.yes.total() - (seen.yes[None] if protocol == "lmms" else 0)
    yes_count = seen.yes.total() if protocol == "lmms" else said_yes
    proportions = {
        "accuracy": (hits + seen.no["no"], len(pairs)),
        "precision": (hits, said_yes),
        "recall": (hits, right_yes),
        "yes_ratio": (yes_count, len(pairs)),
    }
    if protocol == "typed":
        proportions["unread"] = (seen.yes[None] + seen.no[None], len(pairs))
    if protocol == "vlmevalkit":
        del proportions["yes_ratio"]

    def score(metric: str, value: float | None, low: float | None, high: float | None) -> Score:
        if value is None and len(pairs) and protocol in ("lmms", "vlmevalkit"):
            value = 0.0
        return Score(
            protocol=protocol,
            metric=metric,
            value=value,
            low=low,
            high=high,
            questions=len(pairs),
            group=group,
        )

    scores = [
        score(metric, part / whole if whole else None, *wilson(part, whole))
        for metric, (part, whole) in proportions.items()
    ]
    # F1 is 2 TP / (2 TP + FP + FN), which is defined where precision or recall is not.
    f1 = 2 * hits / (said_yes + right_yes) if said_yes + right_yes else None
    return [*scores, score("f1", f1, *f1_interval(hits, said_yes - hits, right_yes - hits))]
