"""Intervals: never narrower than the questions allow, whatever they have in common."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_mai.benchmarks.statistics import (
    Estimate,
    f1,
    f1_interval,
    mean,
    median,
    paired_difference,
    proportion,
    quantile,
    ratio,
    tango,
    wilson,
)

GRADED = st.lists(
    st.tuples(st.booleans() | st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=40
)
NEAR = 1e-6


def parts(graded):
    return [float(right) for right, _ in graded], [image for _, image in graded]


@settings(deadline=None)
@given(GRADED)
def test_a_proportion_by_image_is_no_surer_than_wilsons_and_has_a_width(graded):
    values, images = parts(graded)
    seen = proportion(values, images)
    if all(value in (0, 1) for value in values):  # others can tell more
        low, high = wilson(sum(values), len(values))
        assert seen.low <= low + NEAR
        assert high - NEAR <= seen.high
    assert 0 <= seen.low < seen.high <= 1
    assert seen.low - NEAR <= seen.value <= seen.high + NEAR
    assert (seen.questions, seen.clusters) == (len(values), len(set(images)))


@settings(deadline=None)
@given(GRADED)
def test_wrong_answers_have_the_mirrored_interval_of_right_ones(graded):
    values, images = parts(graded)
    right, wrong = proportion(values, images), proportion([1 - one for one in values], images)
    assert (1 - wrong.high, 1 - wrong.low) == pytest.approx((right.low, right.high))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 1.0]), st.integers(0, 5)), min_size=1))
def test_a_difference_by_image_is_no_surer_than_by_question_and_has_a_width(graded):
    gaps, images = parts(graded)
    alone, seen = paired_difference(gaps), paired_difference(gaps, images)
    assert -1 <= seen.low <= alone.low + NEAR
    assert alone.high - NEAR <= seen.high <= 1
    assert seen.low < seen.high
    assert seen.low - NEAR <= seen.value <= seen.high + NEAR
    turned = paired_difference([-one for one in gaps], images)
    assert (-turned.high, -turned.low) == pytest.approx((seen.low, seen.high), abs=NEAR)


@pytest.mark.parametrize("clusters", [1, 2, 3, 10])
def test_answers_that_are_all_alike_tell_as_much_as_their_clusters(clusters):
    images = [number % clusters for number in range(30)]
    seen = proportion([0.0] * 30, images)
    assert (seen.low, seen.high) == pytest.approx(wilson(0, clusters))
    seen = proportion([float(number < 10) for number in range(30)], images)
    assert seen.high - seen.low > 0.3


def test_wilsons_and_tangos_intervals_are_the_published_ones():
    values = [1.0] * 7 + [0.0] * 3
    assert (proportion(values).low, proportion(values).high) == pytest.approx(wilson(7, 10))
    assert proportion(values, range(10)) == proportion(values)
    assert wilson(7, 10) == pytest.approx((0.3968, 0.8922), abs=1e-4)
    # 21 pairs, of which 1 and 7 changed (Fagerland, Lydersen and Laake 2014, table 9).
    assert tango(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)
    # Without a difference it is Wilson's upper end, on both sides.
    assert tango(0, 0, 10) == pytest.approx((-wilson(0, 10)[1], wilson(0, 10)[1]))
    assert tango(0, 0, 0) == (None, None)


@pytest.mark.parametrize("clusters", [3, 10, 30])
def test_95_in_100_intervals_hold_the_truth_with_few_clusters_and_many(clusters):
    chance = random.Random(clusters)
    held = differs = 0
    for _ in range(200):
        levels = [chance.betavariate(2.8, 1.2) for _ in range(clusters)]  # 0.7 on average
        images = [image for image in range(clusters) for _ in range(6)]
        one, two = ([float(chance.random() < levels[k]) for k in images] for _ in range(2))
        seen = proportion(one, images)
        held += seen.low <= 0.7 <= seen.high
        gap = paired_difference([a - b for a, b in zip(one, two, strict=True)], images)
        differs += gap.low <= 0 <= gap.high
    assert held >= 184
    assert differs >= 184


def test_f1_has_the_interval_of_its_share_of_hits():
    hits = [True] * 8 + [False] * 3
    alone, seen = f1(hits), f1(hits, [number // 4 for number in range(11)])
    low, high = f1_interval(wilson(8, 11))
    assert alone.value == seen.value == pytest.approx(16 / 19)
    assert seen.low < low < high < seen.high
    assert (f1([]).value, f1_interval(wilson(0, 0))) == (None, (None, None))


def test_means_vary_more_where_questions_share_a_picture():
    values = [1.0, 0.0] * 100
    alone = mean(values)
    together = mean(values, [number % 20 for number in range(200)])
    assert alone.value == together.value == 0.5
    assert alone.low < 0.5 < alone.high
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert mean(values) == alone


def test_a_bootstrap_reaches_as_far_as_students_t_and_without_a_width_is_no_interval():
    values = [10.0, 20.0, 33.0]
    seen = mean(values)
    assert (seen.low, seen.high) == (10.0, 33.0)  # it cannot reach further than what it draws
    many = mean(values * 100)
    assert many.high - many.low < 3
    for values in ([2.0], [2.0] * 50):
        assert (mean(values).value, mean(values).low, mean(values).high) == (2.0, None, None)
        assert median(values).low is None
    below = [float(1 + number % 7) for number in range(70)]
    double = ratio([2 * value for value in below], below)
    assert (double.value, double.low, double.high) == (2.0, None, None)


def test_medians_have_an_interval_and_nothing_has_no_estimate():
    seen = median([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (seen.value, seen.questions) == (3.0, 5)
    assert 1.0 <= seen.low <= 3.0 <= seen.high <= 100.0
    assert mean([]) == Estimate(None, None, None, 0)
    assert ratio([1.0], [0.0]).value is None
    for seen in (proportion([]), paired_difference([]), median([])):
        assert (seen.value, seen.low, seen.high) == (None, None, None)
    assert (quantile([], 0.5), quantile([1, 2, 3, 4], 0.5)) == (None, 2.5)
