"""The figure that the paper shows of a benchmark, with an interval in which images count once.

Questions about one image are right or wrong together. Every score of a report comes from here, so
that one figure has one interval wherever it stands.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from ..estimates import Estimate, share
from ..metrics.grading import RULES, YES_NO
from ..metrics.intervals import f1_share_interval
from ..question import BenchmarkQuestion


def score_by_image(
    figure: str,
    metric: str,
    protocol: str,
    questions: Sequence[BenchmarkQuestion],
    texts: Mapping[str, str],
    clusters: Sequence[Hashable],
) -> Estimate:
    """A benchmark's figure over some questions.

    Args:
        figure: Its name: "f1" of POPE, else one of the figures of the metric.
        metric: The benchmark's metric.
        protocol: Whose reading of the outputs counts.
        questions: What is counted; each has a text.
        texts: Outputs by question id.
        clusters: What each question belongs to.
    """
    if metric == "pope":
        return _f1(protocol, questions, texts, clusters)
    rules = {str(name): grade for name, grade in RULES[metric][figure].items()}
    if protocol not in rules:
        return Estimate(None, None, None, 0)
    graded = [
        (worth, cluster)
        for question, cluster in zip(questions, clusters, strict=True)
        if (worth := rules[protocol](question, texts[question.id])) is not None
    ]
    return share([worth for worth, _ in graded], [cluster for _, cluster in graded])


def _f1(
    protocol: str,
    questions: Sequence[BenchmarkQuestion],
    texts: Mapping[str, str],
    clusters: Sequence[Hashable],
) -> Estimate:
    """F1 is about hits, false alarms and misses; what is rightly denied is not in it."""
    reading = {str(name): read for name, read in YES_NO.items()}[protocol]
    hits: list[bool] = []
    where: list[Hashable] = []
    for question, cluster in zip(questions, clusters, strict=True):
        said = reading(question, texts[question.id])
        right_yes = question.answers[0].strip().lower() == "yes"
        missed = right_yes and said != "yes" and not (protocol == "lmms" and said is None)
        if said == "yes" or missed:
            hits.append(right_yes and not missed)
            where.append(cluster)
    whole = Estimate(None, None, None, len(questions), len(set(clusters)))
    if not hits:
        return replace(whole, value=0.0) if protocol in ("lmms", "vlmevalkit") else whole
    right = sum(hits) / len(hits)
    low, high = f1_share_interval(hits, where)
    return replace(whole, value=2 * right / (1 + right), low=low, high=high)
