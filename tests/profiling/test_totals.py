import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_mai.graph import STRATEGIES
from langgraph_mai.profiling.advice import advise
from langgraph_mai.profiling.break_even import REFERENCES, break_even
from langgraph_mai.profiling.latency import ModelLatency
from langgraph_mai.profiling.serving import Serving, simulate_serving
from langgraph_mai.profiling.totals import Settings, output_tokens, priced, total_seconds
from langgraph_mai.profiling.workload import Drafting, Workload

SMALL = ModelLatency("small", ((100, 0.02), (300, 0.04)), 0.01, 0.1)
LARGE = ModelLatency("large", ((100, 0.03), (300, 0.07)), 0.02, 0.15)
PAIR = {"small": SMALL, "large": LARGE}
WORKLOAD = Workload(
    "set",
    100,
    {"direct": 80, "reasoned": 5, "transferred": 15},
    {
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
            "m",
            ((64, fast), (512, fast + more)),
            token,
            batch_slope=slope,
            overhead_seconds=overhead,
        ),
        seconds,
        seconds,
        st.floats(0.001, 0.2),
        st.floats(0, 0.5),
        st.floats(0, 0.1),
    )


def workloads():
    counts = st.integers(0, 9)
    return st.builds(
        lambda direct, reasoned, transferred, tokens, rate: Workload(
            "set",
            1 + direct + reasoned + transferred,
            {"direct": direct + 1, "reasoned": reasoned, "transferred": transferred},
            dict(
                zip(
                    [(r, s) for r in ("small", "large") for s in ("direct", "explain", "reason")],
                    tokens,
                    strict=True,
                )
            ),
            drafting=Drafting(rate),
        ),
        counts,
        counts,
        counts,
        st.lists(st.floats(1, 300), min_size=6, max_size=6),
        st.floats(0, 1),
    )


def test_a_prompt_between_two_measured_ones_costs_in_between():
    assert SMALL.prefill_seconds(200) == pytest.approx(0.03)
    assert SMALL.prefill_seconds(10) == 0.02
    assert SMALL.prefill_seconds(500) == pytest.approx(0.06)


def test_a_total_is_the_sum_of_its_calls():
    direct = 0.1 + 0.15  # both at their shortest time
    reasoning = 0.03 + 50 * 0.01
    transfer = LARGE.prefill_seconds(250) + 0.02
    expected = 100 * direct + 20 * reasoning + 15 * max(0.15, transfer)
    assert total_seconds("mai", WORKLOAD, PAIR) == pytest.approx(expected)


def test_output_tokens_are_those_of_all_calls():
    assert output_tokens("large_reason", WORKLOAD) == 60
    # Two direct answers, 20 reasonings and 15 transfers on 100 questions.
    assert output_tokens("mai", WORKLOAD) == pytest.approx(2 + 1 + 0.2 * 50 + 0.15 * 1)


def test_the_length_of_a_reasoning_is_that_of_its_route():
    longer = replace(WORKLOAD, reason_tokens={"reasoned": 150})
    more = total_seconds("mai", longer, PAIR) - total_seconds("mai", WORKLOAD, PAIR)
    assert more == pytest.approx(5 * 100 * SMALL.seconds_per_token)
    assert total_seconds("small_reason", longer, PAIR) == total_seconds(
        "small_reason", WORKLOAD, PAIR
    )


def test_a_draft_reads_the_prompt_and_writes_ahead_of_every_pass():
    # 60 tokens in rounds of 3 of the draft and one pass, each of which gives 1 + 0.5 * 3.
    drafted = replace(WORKLOAD, drafting=Drafting(0.5, ahead=3))
    rounds = 60 / 2.5
    one_round = 3 * SMALL.seconds_per_token + LARGE.suffix_seconds(4)
    expected = LARGE.prefill_seconds(200) + SMALL.prefill_seconds(200) + rounds * one_round
    assert total_seconds("speculative", drafted, PAIR) == pytest.approx(100 * expected)
    assert output_tokens("speculative", drafted) == output_tokens("large_reason", drafted) == 60
    assert priced(["speculative", "large_reason"], WORKLOAD) == ["large_reason"]


@pytest.mark.parametrize("strategy", ["full_transfer", "small_two_stage", "mai"])
def test_a_transferred_reasoning_has_no_picture(strategy):
    """What reads it pays for the picture of the question, however long the reasoning is."""
    sizes = ((128, 0.05), (320, 0.09), (1088, 0.4))
    seeing = {role: replace(one, pictures=sizes, least_seconds=0) for role, one in PAIR.items()}
    blind = {role: replace(one, least_seconds=0) for role, one in PAIR.items()}
    longer = replace(WORKLOAD, tokens=dict(WORKLOAD.tokens) | {("small", "reason"): 900})
    for workload in (WORKLOAD, longer):
        more = total_seconds(strategy, workload, seeing, Settings(floor=False))
        more -= total_seconds(strategy, workload, blind, Settings(floor=False))
        calls = {"mai": 2 * 100 + 20 + 15}.get(strategy, 2 * 100)
        assert more == pytest.approx(calls * SMALL_PICTURE)


SMALL_PICTURE = 0.05 + (0.09 - 0.05) * (200 - 128) / (320 - 128)


def test_overheads_are_paid_by_the_call_and_by_the_node():
    slower = {role: replace(one, overhead_seconds=0.5) for role, one in PAIR.items()}
    alone = Settings(floor=False)
    for strategy, calls in (("large_reason", 1), ("full_transfer", 2)):
        more = total_seconds(strategy, WORKLOAD, slower, alone)
        assert more - total_seconds(strategy, WORKLOAD, PAIR, alone) == pytest.approx(50 * calls)
    graph = replace(alone, question_seconds=0.1, node_seconds=0.01)
    more = total_seconds("mai", WORKLOAD, PAIR, graph)
    plain = total_seconds("mai", WORKLOAD, PAIR, alone)
    nodes = 80 * 5 + 5 * 7 + 15 * 8
    assert more - plain == pytest.approx(100 * 0.1 + nodes * 0.01)


@pytest.mark.parametrize("strategy", ["mai", "full_transfer", "small_two_stage"])
def test_overlap_and_prefix_reuse_save_time_and_the_shortest_call_costs_some(strategy):
    plain = total_seconds(strategy, WORKLOAD, PAIR, Settings(floor=False))
    assert total_seconds(strategy, WORKLOAD, PAIR, Settings(overlap=True, floor=False)) <= plain
    assert (
        total_seconds(strategy, WORKLOAD, PAIR, Settings(prefix_reuse=True, floor=False)) <= plain
    )
    assert total_seconds(strategy, WORKLOAD, PAIR) >= plain


@given(
    workload=workloads(),
    small=latencies(),
    large=latencies(),
    strategy=st.sampled_from(
        ["mai", "full_transfer", "large_reason", "large_two_stage", "speculative"]
    ),
    overlap=st.booleans(),
    reuse=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_one_question_at_a_time_is_served_in_the_time_of_the_totals(
    workload, small, large, strategy, overlap, reuse
):
    """The discrete events and the arithmetic are two ways to one figure."""
    pair = {"small": small, "large": large}
    served = simulate_serving(
        strategy,
        workload,
        pair,
        Serving(
            questions=workload.questions,
            concurrency=1,
            spread=0,
            overlap=overlap,
            prefix_reuse=reuse,
        ),
    )
    alone = Settings(overlap=overlap, prefix_reuse=reuse, floor=False)
    assert served.seconds == pytest.approx(total_seconds(strategy, workload, pair, alone))


def test_at_the_break_even_points_mai_takes_as_long_as_the_large_models_reasoning():
    even = break_even(WORKLOAD, PAIR, Settings(floor=False))
    limit = total_seconds("large_reason", WORKLOAD, PAIR, Settings(floor=False))

    longer = replace(
        WORKLOAD, reason_tokens={"reasoned": even.reasoning, "transferred": even.reasoning}
    )
    assert total_seconds("mai", longer, PAIR, Settings(floor=False)) == pytest.approx(limit)

    slow = replace(SMALL, seconds_per_token=LARGE.seconds_per_token / even.speed_ratio)
    slower = {"small": slow, "large": LARGE}
    assert total_seconds("mai", WORKLOAD, slower, Settings(floor=False)) == pytest.approx(limit)
    assert even.speed_ratio < even.speed_ratio_now == pytest.approx(2)

    assert even.disputed is None  # even if all were disputed, the small model reasons faster
    slower_pair = {"small": replace(SMALL, seconds_per_token=0.025), "large": LARGE}
    even = break_even(WORKLOAD, slower_pair, Settings(floor=False))
    disputed = round(even.disputed * 1e6)
    moved = replace(
        WORKLOAD,
        questions=1_000_000,
        routes={"reasoned": disputed // 4, "transferred": disputed - disputed // 4},
    )
    each = total_seconds("mai", moved, slower_pair, Settings(floor=False)) / 1e6
    assert each == pytest.approx(limit / 100, rel=1e-4)


def test_mai_is_held_against_speculative_decoding_where_that_is_faster():
    alone = Settings(floor=False)
    assert break_even(WORKLOAD, PAIR, alone).against == "large_reason"
    assert break_even(WORKLOAD, PAIR, alone).accept_rate_now is None
    for rate, against in ((0.95, "speculative"), (0.1, "large_reason")):
        drafted = replace(WORKLOAD, drafting=Drafting(rate))
        even = break_even(drafted, PAIR, alone)
        assert (even.against, even.accept_rate_now) == (against, rate)
        length = {"reasoned": even.reasoning, "transferred": even.reasoning}
        longer = total_seconds("mai", replace(drafted, reason_tokens=length), PAIR, alone)
        assert longer == pytest.approx(total_seconds(against, drafted, PAIR, alone))


@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_below_the_speed_ratio_that_is_named_mai_is_slower_than_either_way(rate):
    """The small model is also the draft: slower, it slows speculative decoding down as well."""
    quick = ModelLatency("quick", ((100, 0.022),), 0.002)
    slow = ModelLatency("slow", ((100, 0.07),), 0.02)
    tokens = dict(WORKLOAD.tokens) | {("small", "reason"): 300, ("large", "reason"): 200}
    routes = {"direct": 50, "reasoned": 10, "transferred": 40}
    workload = replace(WORKLOAD, routes=routes, tokens=tokens, drafting=Drafting(rate))
    alone = Settings(floor=False)
    ratio = break_even(workload, {"small": quick, "large": slow}, alone).speed_ratio
    assert ratio is not None

    def lost(ratio):
        changed = replace(quick, seconds_per_token=slow.seconds_per_token / ratio)
        pair = {"small": changed, "large": slow}
        others = (total_seconds(name, workload, pair, alone) for name in REFERENCES)
        return total_seconds("mai", workload, pair, alone) - min(others)

    assert lost(ratio) == pytest.approx(0, abs=1e-6)
    assert lost(0.9 * ratio) > 0 > lost(1.1 * ratio)
    slower = replace(quick, seconds_per_token=0.015)
    again = break_even(workload, {"small": slower, "large": slow}, alone).speed_ratio
    assert again == pytest.approx(ratio)


@given(workload=workloads(), small=latencies(), large=latencies())
@settings(max_examples=80, deadline=None)
def test_what_is_said_of_the_speed_ratio_is_so(workload, small, large):
    alone = Settings(floor=False)
    even = break_even(workload, {"small": small, "large": large}, alone)

    def lost(ratio):
        changed = replace(small, seconds_per_token=large.seconds_per_token / ratio)
        pair = {"small": changed, "large": large}
        others = [total_seconds(name, workload, pair, alone) for name in REFERENCES]
        return (total_seconds("mai", workload, pair, alone) - min(others)) / min(others)

    now = lost(even.speed_ratio_now)
    if even.speed_ratio is None:
        assert now <= 1e-9
    elif math.isinf(even.speed_ratio):
        assert now > 0
    else:
        assert lost(even.speed_ratio) == pytest.approx(0, abs=1e-6)


def test_where_mai_is_always_slower_it_is_so_from_nothing_on():
    terse = dict(WORKLOAD.tokens) | {("large", "reason"): 1}
    even = break_even(replace(WORKLOAD, tokens=terse), PAIR, Settings(floor=False))
    assert (even.disputed, even.reasoning, even.speed_ratio) == (0, 0, math.inf)


def test_from_the_accept_rate_on_that_is_named_a_draft_saves_time():
    alone = Settings(floor=False)
    rate = break_even(WORKLOAD, PAIR, alone).accept_rate
    drafted = replace(WORKLOAD, drafting=Drafting(rate))
    assert total_seconds("speculative", drafted, PAIR, alone) == pytest.approx(
        total_seconds("large_reason", WORKLOAD, PAIR, alone)
    )
    slow = {"small": replace(SMALL, seconds_per_token=0.03), "large": LARGE}
    assert break_even(WORKLOAD, slow, alone).accept_rate is None  # the draft is no faster


def test_the_advice_knows_that_speculation_scores_as_the_large_models_reasoning():
    scores = {"mai": 80, "large_direct": 79, "large_reason": 91}
    drafted = replace(WORKLOAD, scores=scores, drafting=Drafting(0.95))
    assert str(advise(drafted, PAIR)).startswith("set: speculative is the fastest that reaches 91")
    assert "next large_reason (91" in str(advise(drafted, PAIR))
    slowed = advise(replace(drafted, drafting=Drafting(0.1)), PAIR)
    assert slowed.best.strategy == "large_reason"
    unknown = replace(WORKLOAD, scores=scores | {"small_explain": 99})
    assert "speculative" not in str(advise(unknown, PAIR))
    measured = replace(drafted, scores=scores | {"speculative": 90})
    assert advise(measured, PAIR).best.strategy == "large_reason"


@pytest.mark.parametrize(
    ("scores", "floor", "best"),
    [
        ({"mai": 90, "large_direct": 80, "large_reason": 91}, 85, "mai"),
        ({"mai": 90, "large_direct": 86, "large_reason": 91}, 85, "large_direct"),
        ({"mai": 90, "large_direct": 80, "large_reason": 91}, None, "large_reason"),
        ({"mai": 90, "small_direct": 89, "large_direct": 88}, 88, "small_direct"),
    ],
)
def test_the_advice_is_the_fastest_that_reaches_the_floor(scores, floor, best):
    advice = advise(replace(WORKLOAD, scores=scores), PAIR, floor)
    assert str(advice).startswith(f"set: {best} is the fastest")
    assert advice.reached


def test_the_advice_says_if_nothing_reaches_the_floor():
    scored = replace(WORKLOAD, scores={"mai": 70, "large_direct": 60})
    advice = advise(scored, PAIR, 99)
    assert "nothing reaches 99; mai comes nearest with 70" in str(advice)
    assert not advice.reached
    assert "nothing can be advised" in str(advise(WORKLOAD, PAIR))


@given(
    workload=workloads(),
    small=latencies(),
    large=latencies(),
    scores=st.dictionaries(st.sampled_from(STRATEGIES), st.floats(0, 100)),
    floor=st.none() | st.floats(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_no_strategy_of_the_table_is_better_than_the_advised_one(
    workload, small, large, scores, floor
):
    pair = {"small": small, "large": large}
    workload = replace(workload, scores=scores)
    advice = advise(workload, pair, floor)
    known = {
        name: (score, total_seconds(name, workload, pair) / workload.questions)
        for name in priced(STRATEGIES, workload)
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


@pytest.mark.parametrize(
    "wrong",
    [
        {"questions": 0},
        {"questions": 10},
        {"tokens": {("small", "direct"): -1}},
        {"tokens": {("small", "direct"): math.nan}},
        {"reason_tokens": {"reasoned": math.inf}},
        {"prompt_tokens": -40},
        {"prompt_tokens": math.nan},
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="set"):
        replace(WORKLOAD, **wrong)


def test_a_draft_that_cannot_be_is_refused():
    for rate, ahead in ((1.5, 5), (math.nan, 5), (0.5, 0), (0.5, math.inf), (0.5, math.nan)):
        with pytest.raises(ValueError, match="from 0 to 1, and a draft writes a token"):
            Drafting(rate, ahead)


def test_latencies_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="ascending"):
        replace(SMALL, prefill=((300, 1.0), (100, 1.0)))
    with pytest.raises(ValueError, match="negative"):
        replace(SMALL, seconds_per_token=0)
