"""The gate's threshold is exact, and its confidence measured: on 2,000 recorded questions."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from langgraph_mai.benchmarks.calibration import (
    TooFewQuestionsError,
    find_threshold,
    losses_allowed,
)

scores = st.one_of(st.just(math.nan), st.sampled_from([0.5, 0.8, 0.9, 0.99, 1.0]), st.floats(0, 1))
data_sets = st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=120)


@given(data_sets, st.floats(0.005, 0.6), st.sampled_from([0.01, 0.05, 0.2]))
@settings(max_examples=1_000, deadline=None)
def test_the_threshold_is_the_lowest_that_a_brute_force_search_certifies(pairs, risk, delta):
    own, losses = [score for score, _ in pairs], [loss for _, loss in pairs]
    certified = [k for k in range(len(own) + 1) if binom.cdf(k, len(own), risk) <= delta]
    if not certified:
        with pytest.raises(TooFewQuestionsError):
            find_threshold(own, losses, risk, delta)
        return
    assert losses_allowed(len(own), risk, delta) == max(certified)
    candidates = sorted({score for score in own if score == score})
    kept = [
        one
        for one in candidates
        if sum(loss for score, loss in pairs if score >= one) <= max(certified)
    ]
    assert find_threshold(own, losses, risk, delta) == min(kept, default=None)


@pytest.mark.parametrize(("risk", "needed"), [(0.005, 598), (0.01, 299), (0.02, 149), (0.05, 59)])
def test_too_few_questions_are_refused_with_the_number_needed(risk, needed):
    with pytest.raises(TooFewQuestionsError, match=f"{needed} are needed"):
        find_threshold([1.0] * 50, [False] * 50, risk, 0.05)
    with pytest.raises(TooFewQuestionsError):
        losses_allowed(needed - 1, risk, 0.05)
    assert losses_allowed(needed, risk, 0.05) == 0
    assert find_threshold([0.5] * needed, [False] * needed, risk, 0.05) == 0.5


@pytest.mark.parametrize(("questions", "risk", "most"), [(1_000, 0.01, 4), (1_000, 0.02, 12)])
def test_losses_that_certify(questions, risk, most):
    assert losses_allowed(questions, risk, 0.05) == most


def test_the_true_loss_is_above_the_risk_in_at_most_delta_of_all_calibrations():
    """A threshold that only keeps the risk on its own questions breaks it far more often."""
    with gzip.open(Path(__file__).parent.parent / "data" / "gate_calls.csv.gz", "rt") as file:
        rows = [line.split(",") for line in file.read().splitlines()[1:]]
    scores, losses = (np.array([float(row[at]) for row in rows]) for at in (0, 1))
    rng, risk, runs = np.random.default_rng(5), 0.02, 2_000
    broken, plugged = 0, 0
    for _ in range(runs):
        drawn = rng.integers(len(rows), size=500)
        own, lost = scores[drawn], losses[drawn]
        threshold = find_threshold(own.tolist(), lost.tolist(), risk, 0.05)
        if threshold is not None:
            broken += losses[scores >= threshold].sum() > risk * len(rows)
        order = np.argsort(-own)
        kept = np.flatnonzero(np.cumsum(lost[order]) <= risk * len(own))
        plugged += losses[scores >= own[order][kept[-1]]].sum() > risk * len(rows)
    assert broken <= runs * (0.05 + 3 * math.sqrt(0.05 * 0.95 / runs))
    assert plugged > 0.3 * runs


@pytest.mark.parametrize("seed", range(20))
def test_mapie_finds_the_same_threshold_or_one_loss_less(seed):
    control = pytest.importorskip("mapie.risk_control")
    rng = np.random.default_rng(seed)
    own = rng.random(400).round(2)
    lost = rng.random(400) < 0.3 * (1 - own)
    thresholds = np.unique(own)[::-1]
    risk = control.BinaryRisk(
        risk_occurrence=lambda loss, skipped: (skipped == 1) & (loss == 1),
        risk_condition=lambda loss, _: np.ones_like(loss, dtype=bool),
        higher_is_better=False,
    )
    oracle = control.BinaryClassificationController(
        lambda scores: np.stack([1 - scores[:, 0], scores[:, 0]], axis=1),
        risk,
        target_level=0.05,
        confidence_level=0.95,
        best_predict_param_choice=risk,
        list_predict_params=thresholds,
        fwer_method="fixed_sequence",
    ).calibrate(own[:, None], lost.astype(int))
    found = find_threshold(own.tolist(), lost.tolist(), 0.05, 0.05)
    theirs = min(np.ravel(oracle.valid_predict_params), default=None)
    stricter = losses_allowed(400, 0.05, 0.05) - 1
    one_less = [one for one in thresholds if lost[own >= one].sum() <= stricter]
    assert theirs in (found, min(one_less, default=None))
