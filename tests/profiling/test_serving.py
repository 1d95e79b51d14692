from dataclasses import replace

import pytest

from langgraph_mai.profiling.capacity import plan_engines
from langgraph_mai.profiling.paper_tables import paper_latencies, paper_workloads
from langgraph_mai.profiling.serving import Serving, simulate_serving

PAIR = paper_latencies()
POPE, _, _, CHARTQA, _ = paper_workloads()
EVEN = Serving(questions=200, concurrency=16, batch_limit=16, spread=0)


def test_every_question_is_answered_at_any_load():
    for rate in (0.5, 5, 500):
        served = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, rate=rate, concurrency=1))
        assert len(served.waits) == 200
        assert 0 < served.busy["large"] <= 1


def test_a_batch_of_equal_calls_takes_the_time_of_its_steps():
    served = simulate_serving("large_reason", CHARTQA, PAIR, replace(EVEN, questions=16))
    tokens = CHARTQA.tokens["large", "reason"]
    large = PAIR["large"]
    read = large.prefill_seconds(16 * CHARTQA.prompt_tokens)
    # The first call arrives alone and is read before the others.
    read += large.prefill_seconds(CHARTQA.prompt_tokens) - large.prefill_per_token * 320
    assert served.seconds == pytest.approx(read + tokens * large.step_seconds(16), rel=0.01)
    assert served.batch["large"] == pytest.approx(16, rel=0.01)


def test_batches_stay_within_their_limit_and_more_room_helps():
    narrow = simulate_serving("small_reason", POPE, PAIR, replace(EVEN, batch_limit=4))
    wide = simulate_serving("small_reason", POPE, PAIR, EVEN)
    assert narrow.batch["small"] <= 4
    assert wide.seconds < narrow.seconds


def test_two_devices_beat_one_and_more_engines_beat_two():
    one = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, devices=1))
    two = simulate_serving("mai", CHARTQA, PAIR, EVEN)
    four = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, small_engines=2, large_engines=2))
    assert one.seconds > two.seconds > four.seconds


def test_one_device_takes_both_engines_turns():
    """Both direct answers at once on one device take as long as one after the other."""
    agreed = replace(POPE, routes={"direct": POPE.questions})
    alone = replace(EVEN, concurrency=1, questions=50, devices=1)
    together = simulate_serving("mai", agreed, PAIR, alone)
    in_turns = simulate_serving("mai", agreed, PAIR, replace(alone, overlap=False))
    assert together.seconds == pytest.approx(in_turns.seconds)


def test_prefix_reuse_saves_time():
    with_reuse = simulate_serving("mai", CHARTQA, PAIR, EVEN)
    without = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, prefix_reuse=False))
    assert with_reuse.seconds < without.seconds


def test_the_seed_decides_everything():
    random = replace(EVEN, rate=5, spread=0.7)
    first = simulate_serving("mai", CHARTQA, PAIR, random)
    assert simulate_serving("mai", CHARTQA, PAIR, random) == first
    assert simulate_serving("mai", CHARTQA, PAIR, replace(random, seed=1)) != first


@pytest.mark.parametrize("strategy", ["mai", "large_reason"])
def test_planned_engines_keep_up_with_their_stream(strategy):
    """Questions at the end of a long stream wait no longer than those of a short one."""
    short = plan_engines(strategy, CHARTQA, PAIR, 100, Serving(questions=1500))
    long = plan_engines(strategy, CHARTQA, PAIR, 100, Serving(questions=6000))
    assert short.engines == long.engines
    assert long.served.quantile(0.5) < 1.5 * short.served.quantile(0.5)


def test_a_strategy_of_one_model_plans_no_engines_of_the_other():
    assert plan_engines("large_reason", POPE, PAIR, 10, EVEN).engines["small"] == 0


@pytest.mark.parametrize(
    "wrong", [{"questions": 0}, {"rate": -1}, {"devices": 3}, {"spread": -1}, {"batch_limit": 0}]
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must|runs on"):
        replace(EVEN, **wrong)


def test_a_stream_with_a_draft_takes_more_engines_than_one_without_by_the_papers_accept_rate():
    plans = {
        name: plan_engines(name, CHARTQA, PAIR, 10, EVEN)
        for name in ("speculative", "large_reason", "mai")
    }
    assert plans["speculative"].engines["small"] == 0  # it computes beside its target
    assert plans["speculative"].engines["large"] > plans["large_reason"].engines["large"]
    assert plans["mai"].engines["large"] < plans["large_reason"].engines["large"]
    served = simulate_serving("speculative", CHARTQA, PAIR, EVEN)
    plain = simulate_serving("large_reason", CHARTQA, PAIR, EVEN)
    assert served.rate == pytest.approx(plain.rate * 0.83, rel=0.02)
