"""What strategies cost one question after the other, and which one is advised."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_mai.graph import STRATEGIES
from langgraph_mai.profiling.latency import ModelLatency
from langgraph_mai.profiling.serving import Serving, simulate_serving
from langgraph_mai.profiling.totals import (
    Settings,
    advise,
    output_tokens,
    predictable,
    total_seconds,
)
from langgraph_mai.profiling.workload import Workload

SMALL = ModelLatency("small", ((100, 0.02), (300, 0.04)), 0.01, 0.1)
LARGE = ModelLatency("large", ((100, 0.03), (300, 0.07)), 0.02, 0.15)
PAIR = {"small": SMALL, "large": LARGE}
ALONE = Settings(floor=False)
WORKLOAD = Workload(
    benchmark="set",
    questions=100,
    verified_direct=80,
    verified_by_reasoning=5,
    reasoning_transfer=15,
    tokens={
        ("small", "direct"): 2,
        ("small", "reason"): 50,
        ("large", "direct"): 1,
        ("large", "reason"): 60,
    },
    prompt_tokens=200,
)


def latencies():
    seconds = st.floats(0.001, 1.0)
    return st.builds(
        lambda fast, more, token, slope, overhead: ModelLatency(
            "m", ((64, fast), (512, fast + more)), token, 0.0, slope, (), overhead
        ),
        seconds,
        seconds,
        st.floats(0.001, 0.2),
        st.floats(0, 0.5),
        st.floats(0, 0.1),
    )


CALLS = [(role, style) for role in ("small", "large") for style in ("direct", "explain", "reason")]


def workloads():
    counts = st.integers(0, 9)
    return st.builds(
        lambda direct, reasoned, transferred, tokens, rate, gated: Workload(
            benchmark="set",
            questions=1 + direct + reasoned + transferred,
            verified_direct=direct + 1,
            verified_by_reasoning=reasoned,
            reasoning_transfer=transferred,
            tokens=dict(zip(CALLS, tokens, strict=True)),
            accept_rate=rate,
            skipped=gated * direct / (1 + direct + reasoned + transferred),
        ),
        counts,
        counts,
        counts,
        st.lists(st.floats(1, 300), min_size=6, max_size=6),
        st.floats(0, 1),
        st.floats(0, 1),
    )


def test_a_total_is_the_sum_of_its_calls():
    direct = 0.1 + 0.15  # both at their lower bound
    reasoning = 0.03 + 50 * 0.01
    transfer = LARGE.prefill_seconds(250) + 0.02
    expected = 100 * direct + 20 * reasoning + 15 * max(0.15, transfer)
    assert total_seconds("mai", WORKLOAD, PAIR) == pytest.approx(expected)
    assert output_tokens("large_reason", WORKLOAD) == 60
    # Two direct answers, 20 reasonings and 15 transfers on 100 questions.
    assert output_tokens("mai", WORKLOAD) == pytest.approx(2 + 1 + 0.2 * 50 + 0.15 * 1)


def test_the_length_of_a_reasoning_is_that_of_its_route():
    longer = replace(WORKLOAD, reason_tokens_reasoned=150)
    more = total_seconds("mai", longer, PAIR) - total_seconds("mai", WORKLOAD, PAIR)
    assert more == pytest.approx(5 * 100 * SMALL.seconds_per_token)
    alone = [total_seconds("small_reason", one, PAIR) for one in (longer, WORKLOAD)]
    assert alone[0] == alone[1]


def test_a_draft_encodes_the_prompt_and_proposes_before_every_pass():
    # 60 tokens in rounds of 3 of the draft and one pass, each of which gives 1 + 0.5 * 3.
    drafted = replace(WORKLOAD, accept_rate=0.5, ahead=3)
    rounds = 60 / 2.5
    one_round = 3 * SMALL.seconds_per_token + LARGE.suffix_seconds(4)
    expected = LARGE.prefill_seconds(200) + SMALL.prefill_seconds(200) + rounds * one_round
    assert total_seconds("speculative", drafted, PAIR) == pytest.approx(100 * expected)
    assert output_tokens("speculative", drafted) == output_tokens("large_reason", drafted) == 60
    assert "speculative" in predictable(drafted)
    assert "speculative" not in predictable(WORKLOAD)


@pytest.mark.parametrize("strategy", ["full_transfer", "small_two_stage", "mai"])
def test_a_transferred_reasoning_has_no_image(strategy):
    """What reads it pays for the image of the question, however long the reasoning is."""
    sizes = ((128, 0.05), (320, 0.09), (1088, 0.4))
    image = 0.05 + (0.09 - 0.05) * (200 - 128) / (320 - 128)
    seeing = {role: replace(one, images=sizes) for role, one in PAIR.items()}
    longer = replace(WORKLOAD, tokens=dict(WORKLOAD.tokens) | {("small", "reason"): 900})
    calls = {"mai": 2 * 100 + 20 + 15}.get(strategy, 2 * 100)
    for workload in (WORKLOAD, longer):
        more = total_seconds(strategy, workload, seeing, ALONE)
        more -= total_seconds(strategy, workload, PAIR, ALONE)
        assert more == pytest.approx(calls * image)


@pytest.mark.parametrize("strategy", ["mai", "full_transfer", "small_two_stage"])
def test_overlap_and_prefix_reuse_save_time_and_bounds_and_overheads_cost_some(strategy):
    plain = total_seconds(strategy, WORKLOAD, PAIR, ALONE)
    assert total_seconds(strategy, WORKLOAD, PAIR, replace(ALONE, overlap=True)) <= plain
    assert total_seconds(strategy, WORKLOAD, PAIR, replace(ALONE, prefix_reuse=True)) <= plain
    assert total_seconds(strategy, WORKLOAD, PAIR) >= plain
    slower = {role: replace(one, overhead_seconds=0.5) for role, one in PAIR.items()}
    calls = {"mai": 2 * 100 + 20 + 15}.get(strategy, 2 * 100)
    more = total_seconds(strategy, WORKLOAD, slower, ALONE) - plain
    assert more == pytest.approx(0.5 * calls)


@given(
    workload=workloads(),
    small=latencies(),
    large=latencies(),
    strategy=st.sampled_from(
        ["mai", "mai_gated", "full_transfer", "large_reason", "large_two_stage", "speculative"]
    ),
    overlap=st.booleans(),
    reuse=st.booleans(),
)
@settings(max_examples=60)
def test_one_question_at_a_time_is_served_in_the_time_of_the_totals(
    workload, small, large, strategy, overlap, reuse
):
    """The discrete events and the arithmetic are two ways to one figure."""
    pair = {"small": small, "large": large}
    one_by_one = Serving(
        questions=workload.questions,
        concurrency=1,
        spread=0,
        overlap=overlap,
        prefix_reuse=reuse,
    )
    served = simulate_serving(strategy, workload, pair, one_by_one)
    alone = Settings(overlap=overlap, prefix_reuse=reuse, floor=False)
    assert served.seconds == pytest.approx(total_seconds(strategy, workload, pair, alone))


@pytest.mark.parametrize(
    ("scores", "floor", "line"),
    [
        ({"mai": 90, "large_reason": 91}, None, "set: large_reason is the fastest"),
        ({"mai": 90, "large_reason": 91}, 90, "set: mai is the fastest that reaches 90"),
        ({"mai": 90, "small_direct": 89, "large_direct": 88}, 88, "set: small_direct is the"),
        ({"mai": 70, "large_direct": 60}, 99, "set: nothing reaches 99; mai comes nearest with 70"),
        ({}, None, "set: no scores are known, so nothing can be advised."),
    ],
)
def test_the_advice_is_the_fastest_that_reaches_the_floor(scores, floor, line):
    advice = advise(replace(WORKLOAD, scores=scores), PAIR, floor)
    assert str(advice).startswith(line)
    assert advice.reached == ("is the" in line)


def test_speculation_scores_as_the_large_models_reasoning():
    drafted = replace(WORKLOAD, scores={"large_reason": 91}, accept_rate=0.99)
    assert str(advise(drafted, PAIR)).startswith("set: speculative is the fastest")


@given(
    workload=workloads(),
    small=latencies(),
    large=latencies(),
    scores=st.dictionaries(st.sampled_from(STRATEGIES), st.floats(0, 100)),
    floor=st.none() | st.floats(0, 100),
)
@settings(max_examples=60)
def test_no_strategy_is_better_than_the_advised_one(workload, small, large, scores, floor):
    pair = {"small": small, "large": large}
    workload = replace(workload, scores=scores)
    advice = advise(workload, pair, floor)
    known = {
        name: (score, total_seconds(name, workload, pair) / workload.questions)
        for name in predictable(workload)
        if (score := workload.score(name)) is not None
    }
    if not known:
        assert advice.best is None
        return
    score, seconds = known[advice.best.strategy]
    assert (advice.best.score, advice.best.seconds) == (score, seconds)
    assert floor is None or advice.wanted == floor
    enough = [name for name, (reached, _) in known.items() if reached >= advice.wanted]
    assert advice.reached == bool(enough)
    if enough:
        assert seconds == min(known[name][1] for name in enough)
        assert (advice.following is None) == (len(enough) == 1)
    else:
        assert score == max(reached for reached, _ in known.values())


def test_a_gate_saves_the_large_models_call_on_the_questions_it_skips():
    gated = replace(WORKLOAD, skipped=0.3)
    saved = total_seconds("mai", WORKLOAD, PAIR) - total_seconds("mai_gated", gated, PAIR)
    assert saved == pytest.approx(30 * 0.15)
    assert "mai_gated" in predictable(gated)
    assert "mai_gated" not in predictable(WORKLOAD)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"questions": 0}, "greater than or equal to 1"),
        ({"questions": 10}, "which is more than the 10 questions"),
        ({"skipped": 0.9}, "the direct answers agree on fewer"),
        ({"tokens": {("small", "direct"): -1}}, "greater than or equal to 0"),
        ({"tokens": {("small", "direct"): math.nan}}, "finite"),
        ({"reason_tokens_reasoned": math.inf}, "finite"),
        ({"prompt_tokens": -40}, "greater than 0"),
        ({"accept_rate": 1.5}, "less than or equal to 1"),
        ({"ahead": 0}, "greater than or equal to 1"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        replace(WORKLOAD, **wrong)
