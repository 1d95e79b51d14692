"""The threshold of the gate and the confidence of answers, found in an evaluation of the cascade.

The threshold is walked down from the top while the losses at or above it are few enough to certify
the risk: they only grow as it falls, so the exact binomial bound of each threshold holds for the
one that is chosen, however many were tried (fixed-sequence testing, as in Learn then Test, arXiv
2110.01052). The field calls this selective prediction or deferral, with risk control.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..configs import ConfigError
from ..nodes.confidence import Calibration, Rate, rate_at, standing_call
from ..nodes.gate import is_loss
from ..nodes.state import MAIError, ModelCall
from .evaluation.results import Result, texts
from .metrics import grades
from .plotting import new_figure, png
from .question import Benchmark
from .statistics import SEED, Estimate, bootstrap, proportion, ratio, wilson

_FOLDS = 5
_BINS = 10
_LEAST_ANSWERS = 20
"""A rate of right answers is measured on at least so many, where there are as many."""


class TooFewQuestionsError(MAIError):
    """No number of losses certifies a risk on so few questions."""


def losses_allowed(questions: int, risk: float, delta: float) -> int:
    """Return the most losses among independent questions that certify a risk.

    Args:
        questions: Their number.
        risk: The share of losses to certify.
        delta: Chance that it is certified although it is exceeded.

    Raises:
        TooFewQuestionsError: Not even none at all would; says how many questions are needed.
    """
    from scipy.stats import binom

    if (1 - risk) ** questions > delta:
        needed = math.ceil(math.log(delta) / math.log1p(-risk))
        raise TooFewQuestionsError(
            f"{questions} questions cannot certify a risk of {risk:.3g} with delta {delta:.3g}, "
            f"even without a loss: {needed} are needed. Provide more, or raise --risk."
        )
    allowed = int(binom.ppf(delta, questions, risk))
    return allowed if binom.cdf(allowed, questions, risk) <= delta else allowed - 1


def find_threshold(
    scores: Sequence[float], losses: Sequence[bool], risk: float, delta: float
) -> float | None:
    """Return the lowest score from which on skipping the large model keeps the risk.

    With probability 1 - delta over the questions, at most `risk` of all questions of the same kind
    are losses with a score at or above it.

    Args:
        scores: One per independent question; NaN is below every threshold.
        losses: Whether the cascade's answer differs from the small model's.
        risk: Share of all questions that may be losses.
        delta: Chance that more are.

    Returns:
        The threshold; None if the highest score has too many losses already.

    Raises:
        TooFewQuestionsError: They cannot certify the risk.
    """
    allowed = losses_allowed(len(scores), risk, delta)
    lost: dict[float, int] = {}
    for score, loss in zip(scores, losses, strict=True):
        if not math.isnan(score):
            lost[score] = lost.get(score, 0) + bool(loss)
    threshold, total = None, 0
    for score in sorted(lost, reverse=True):
        total += lost[score]
        if total > allowed:
            break
        threshold = score
    return threshold


def read_cases(benchmark: Benchmark, results: Sequence[Result]) -> Any:
    """Return what the cascade did on each question, as a pandas frame; failed runs are left out.

    Args:
        benchmark: The questions, with or without known answers.
        results: Those of the strategy `mai`; others are ignored.

    Returns:
        A row per question: `images` (as one text), `score` (probability of the small model's direct
        answer), `loss` (whether the cascade's differs), `small_right` and `right` (NaN without a
        known answer), `route` and `probability` of the cascade's answer, `seconds` and `tokens`
        (prompts included) of all calls, `small_seconds` and `small_tokens` of the small model's
        direct one. Scores and probabilities can be NaN.
    """
    import pandas as pd

    runs = {one["id"]: one for one in results if one["strategy"] == "mai" and not one["error"]}
    calls = {
        name: {f"{call['role']}_{call['style']}": call for call in run["calls"]}
        for name, run in runs.items()
    }
    small_texts = {name: own["small_direct"]["text"] for name, own in calls.items()}
    right = grades(benchmark, texts(results, "mai"))["typed"]
    small_right = grades(benchmark, small_texts)["typed"]
    rows: list[dict[str, Any]] = []
    for question in benchmark.questions:
        if (name := question.id) not in runs:
            continue
        run, own = runs[name], calls[name]
        answered: Any = run["route"], run["fallback"], own
        small, standing = own["small_direct"], standing_call(*answered)
        rows.append(
            {
                "images": " ".join(question.images),
                "score": small["probability"],
                "loss": is_loss(*answered),
                "small_right": small_right.get(name),
                "right": right.get(name),
                "route": run["route"],
                "probability": standing["probability"] if standing else None,
                "seconds": sum(call["seconds"] for call in own.values()),
                "small_seconds": small["seconds"],
                "tokens": sum(map(_tokens, own.values())),
                "small_tokens": _tokens(small),
            }
        )
    frame = pd.DataFrame(rows)
    numbers = ["score", "small_right", "right", "probability"]
    return frame.astype(dict.fromkeys(numbers, float))


def _tokens(call: ModelCall) -> int:
    return (call["input_tokens"] or 0) + (call["output_tokens"] or 0)


def calibrate(
    name: str, cascade: dict[str, Any], cases: Any, risk: float, delta: float
) -> Calibration:
    """Find the threshold and the confidence of a cascade, with what both are worth.

    Questions about the same images are no independent evidence: one of each is drawn for the
    threshold.

    Args:
        name: Of the questions.
        cascade: What `describe_cascade` returned.
        cases: What `read_cases` returned.
        risk: Share of all questions on which the gate may change the answer; 0 for no gate.
        delta: Chance that it changes more.

    Raises:
        TooFewQuestionsError: They cannot certify the risk.
        ConfigError: No call has a probability.
    """
    if cases.empty or cases["score"].isna().all():
        raise ConfigError(
            "No answer of the small model has a probability: its backend gives none, or these "
            "calls were stored before there were any; name another folder with --results."
        )
    alone = cases.sample(frac=1, random_state=SEED).drop_duplicates("images")
    threshold = find_threshold(alone["score"], alone["loss"], risk, delta) if risk else None
    figures = gate_figures(cases, threshold) | confidence_figures(cases, threshold)
    return Calibration(
        benchmark=name,
        cascade=cascade,
        risk=risk,
        delta=delta,
        questions=len(alone),
        losses_allowed=losses_allowed(len(alone), risk, delta) if risk else 0,
        losses=int((alone["loss"] & skipped(alone, threshold)).sum()),
        threshold=threshold,
        figures={key: (one.value, one.low, one.high) for key, one in figures.items()},
        confidence=fit_confidence(gated_answers(cases, threshold)),
    )


def skipped(cases: Any, threshold: float | None) -> Any:
    """Return on which questions the gate skips the large model."""
    return cases["score"] >= (math.inf if threshold is None else threshold)


def gate_figures(cases: Any, threshold: float | None) -> dict[str, Estimate]:
    """Estimate what a gate skips, changes and saves, each over all questions but one.

    `loss_among_skipped` is the share of changed answers among the skipped ones. Seconds are those
    of all calls together; how long people wait is measured by `mai evaluate --timed`.
    """
    gone, images = skipped(cases, threshold), list(cases["images"])
    saved = {
        name: list((cases[name] - cases[f"small_{name}"]).where(gone, 0.0))
        for name in ("seconds", "tokens")
    }
    among = cases[gone]
    return {
        "skipped": proportion(list(gone), images),
        "loss": proportion(list(gone & cases["loss"]), images),
        "loss_among_skipped": proportion(list(among["loss"]), list(among["images"])),
        **{f"{name}_saved": ratio(own, list(cases[name]), images) for name, own in saved.items()},
    }


def gated_answers(cases: Any, threshold: float | None) -> Any:
    """Return route, probability, rightness and images of the answers that a gated cascade gives.

    Those without a probability or a known answer are left out.
    """
    gone = skipped(cases, threshold)
    answers = cases[["route", "probability", "right", "images"]].copy()
    answers.loc[gone, "route"] = "confident"
    answers.loc[gone, ["probability", "right"]] = cases.loc[gone, ["score", "small_right"]].values
    return answers.dropna()


def fit_confidence(answers: Any) -> dict[str, list[Rate]]:
    """Measure the rate of right answers by route and probability; it never falls with the latter.

    Isotonic regression over groups of at least 20 answers, so that no rate rests on a few.

    Args:
        answers: What `gated_answers` returned.
    """
    from scipy.optimize import isotonic_regression

    found = {}
    for route, own in answers.sort_values("probability").groupby("route"):
        # Equal probabilities stay together; what is left at the end joins the last group.
        place = own["probability"].rank(method="min") - 1
        last = max(len(own) // _LEAST_ANSWERS - 1, 0)
        groups = own.groupby((place // _LEAST_ANSWERS).clip(upper=last))
        lowest = groups["probability"].min().tolist()
        hits, sizes = groups["right"].sum().tolist(), groups.size().tolist()
        blocks = isotonic_regression(groups["right"].mean(), weights=sizes).blocks
        found[str(route)] = [
            Rate(
                probability=lowest[start],
                rate=sum(hits[start:end]) / sum(sizes[start:end]),
                interval=wilson(sum(hits[start:end]), sum(sizes[start:end])),
                questions=sum(sizes[start:end]),
            )
            for start, end in pairwise(blocks.tolist())
        ]
    return found


def held_out_confidence(cases: Any, threshold: float | None) -> Any:
    """Return confidence and rightness (0 or 1) of each answer, fitted without its images' ones.

    Returns:
        An array of shape (answers, 2).
    """
    import numpy as np

    answers = gated_answers(cases, threshold)
    fold = answers["images"].factorize()[0] % _FOLDS
    found = []
    for number in range(_FOLDS):
        rates = fit_confidence(answers[fold != number])
        own = answers[fold == number]
        given = zip(own["route"], own["probability"], own["right"], strict=True)
        found += [
            (rate_at(rates[route], at), right) for route, at, right in given if route in rates
        ]
    return np.array(found).reshape(-1, 2)


def confidence_figures(cases: Any, threshold: float | None) -> dict[str, Estimate]:
    """Estimate how good the confidence is on questions that it was not fitted on.

    Returns:
        `auroc` (chance that a right answer's confidence is above a wrong one's),
        `expected_calibration_error`, and `agreed_error`, the share of wrong answers where both
        direct ones agree; nothing without known answers.
    """
    pairs = held_out_confidence(cases, threshold)
    if not len(pairs):
        return {}
    agreed = cases[(cases["route"] == "direct") & cases["right"].notna()]
    return {
        **{
            name: Estimate(float(of(pairs[None])[0]), *bootstrap(pairs, of), len(pairs))
            for name, of in (("auroc", auroc), ("expected_calibration_error", calibration_error))
        },
        "agreed_error": proportion(list(1 - agreed["right"]), list(agreed["images"])),
    }


def auroc(drawn: Any) -> Any:
    """Return the area under the ROC curve of each draw; ties count half.

    Args:
        drawn: Array of shape (draws, answers, 2): confidence and rightness.
    """
    from scipy.stats import rankdata

    ranks, right = rankdata(drawn[..., 0], axis=1), drawn[..., 1]
    hits = right.sum(axis=1)
    pairs = hits * (right.shape[1] - hits)
    # Without a right or a wrong answer nothing can be told apart.
    above = (ranks * right).sum(axis=1) - hits * (hits + 1) / 2
    return (above + (pairs == 0)) / (pairs + 2 * (pairs == 0))


def calibration_error(drawn: Any) -> Any:
    """Return the expected calibration error of each draw, over ten bins of as many answers.

    Args:
        drawn: Array of shape (draws, answers, 2): confidence and rightness.
    """
    import numpy as np

    order = np.argsort(drawn[..., 0], axis=1, kind="stable")
    gaps = np.take_along_axis(drawn[..., 1] - drawn[..., 0], order, axis=1)
    return sum(abs(own.sum(axis=1)) for own in np.array_split(gaps, _BINS, axis=1)) / gaps.shape[1]


def plot(cases: Any, found: Calibration) -> bytes:
    """Draw risk against share skipped, and the reliability of the confidence, as a PNG file.

    Raises:
        ConfigError: matplotlib or adjustText is not installed.
    """
    import numpy as np

    figure, (trade, reliability) = new_figure(5, 4, 2)
    ordered = cases.sort_values("score", ascending=False).dropna(subset="score")
    share = np.arange(1, len(ordered) + 1) / len(cases)
    trade.plot(100 * share, 100 * ordered["loss"].cumsum() / len(cases), color="#3f6fb5")
    trade.axhline(100 * found.risk, color="#b0413e", linestyle="--", label="certified risk")
    trade.axvline(
        100 * float(skipped(cases, found.threshold).mean()), color="#2c8c4b", label="gate"
    )
    trade.set(xlabel="questions that skip the large model (%)", ylabel="changed answers (%)")
    trade.legend(frameon=False)
    pairs = held_out_confidence(cases, found.threshold)
    reliability.plot([0, 100], [0, 100], color="#999999", linewidth=0.8)
    for own in np.array_split(pairs[np.argsort(pairs[:, 0], kind="stable")], _BINS):
        if len(own):
            confidence, right = own.mean(axis=0)
            ends = [100 * (end or 0.0) for end in wilson(own[:, 1].sum(), len(own))]
            reliability.plot([100 * confidence] * 2, ends, color="#3f6fb5")
            reliability.plot(100 * confidence, 100 * right, "o", color="#3f6fb5")
    reliability.set(xlabel="confidence (%)", ylabel="right answers (%)")
    return png(figure)
