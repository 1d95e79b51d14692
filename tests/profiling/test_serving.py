from dataclasses import replace
from math import ceil
from statistics import fmean, pstdev

import pytest

from langgraph_mai.profiling.capacity import (
    UTILIZATION,
    engine_seconds,
    is_overloaded,
    plan_engines,
)
from langgraph_mai.profiling.engines import PREFILL_TOKENS
from langgraph_mai.profiling.latency import ModelLatency
from langgraph_mai.profiling.paper_tables import paper_latencies, paper_workloads
from langgraph_mai.profiling.serving import Serving, simulate_serving

PAIR = paper_latencies()
POPE, _, _, CHARTQA, _ = paper_workloads()
EVEN = Serving(questions=200, concurrency=16, batch_limit=16, spread=0)


def test_every_question_is_answered_at_any_load():
    for rate in (1e-6, 1e-3, 0.5, 5, 500):
        served = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, rate=rate, concurrency=1))
        assert len(served.waits) == 200
        assert 0 < served.busy["large"] <= 1


def test_a_batch_of_equal_calls_takes_the_time_of_its_steps():
    served = simulate_serving("large_reason", CHARTQA, PAIR, replace(EVEN, questions=16))
    tokens = CHARTQA.tokens["large", "reason"]
    large = PAIR["large"]
    read = large.prefill_seconds(16 * CHARTQA.prompt_tokens)
    # The first call arrives alone and is read before the others; each picture is encoded.
    read += large.prefill_seconds(CHARTQA.prompt_tokens) - large.prefill_per_token * 320
    read += 14 * large.picture_seconds(CHARTQA.prompt_tokens)
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


@pytest.mark.parametrize("questions", [64, 400])
def test_questions_that_come_at_once_are_spread_over_the_engines(questions):
    crowd = replace(EVEN, questions=questions, concurrency=64, batch_limit=8)
    one = simulate_serving("large_reason", CHARTQA, PAIR, crowd)
    four = simulate_serving("large_reason", CHARTQA, PAIR, replace(crowd, large_engines=4))
    assert four.rate == pytest.approx(4 * one.rate, rel=0.15)


def test_the_time_ends_with_the_last_answer():
    alone = replace(EVEN, questions=1, rate=0.001)
    served = simulate_serving("large_direct", CHARTQA, PAIR, alone)
    assert served.seconds == served.waits[0] < 1


def test_each_picture_of_prompts_that_are_read_together_is_encoded():
    """However many are read together: 0.4 s of each for the encoder, 0.1 s for its tokens."""
    slow = ModelLatency("slow", ((1088, 0.1),), 0.01, pictures=((1088, 0.4),))
    asked = replace(CHARTQA, prompt_tokens=1088, tokens=dict.fromkeys(CHARTQA.tokens, 1.0))
    served = simulate_serving("large_direct", asked, {"small": slow, "large": slow}, EVEN)
    assert served.rate == pytest.approx(1 / 0.5, rel=0.01)


def test_so_many_prompt_tokens_are_read_at_once_and_no_more():
    flat = ModelLatency("flat", ((100, 0.5), (9000, 0.5)), 0.001)
    pair = {"small": flat, "large": flat}
    asked = replace(
        CHARTQA, prompt_tokens=PREFILL_TOKENS / 4, tokens=dict.fromkeys(CHARTQA.tokens, 1.0)
    )
    crowd = replace(EVEN, questions=16)
    served = simulate_serving("large_direct", asked, pair, crowd)
    assert served.seconds == pytest.approx(16 / 4 * 0.5, rel=0.02)
    longer = replace(asked, prompt_tokens=PREFILL_TOKENS / 2 + 1)
    served = simulate_serving("large_direct", longer, pair, crowd)
    assert served.seconds == pytest.approx(16 * 0.5, rel=0.02)


def test_lengths_spread_as_much_as_is_said():
    alone = replace(EVEN, questions=2000, concurrency=1)
    for spread in (0.0, 0.5, 1.0):
        served = simulate_serving("large_reason", CHARTQA, PAIR, replace(alone, spread=spread))
        read = PAIR["large"].prefill_seconds(CHARTQA.prompt_tokens)
        written = [wait - read for wait in served.waits]
        assert pstdev(written) / fmean(written) == pytest.approx(spread, rel=0.1, abs=1e-6)
        assert fmean(written) / PAIR["large"].seconds_per_token == pytest.approx(294.3, rel=0.05)


def test_prefix_reuse_saves_time():
    with_reuse = simulate_serving("mai", CHARTQA, PAIR, EVEN)
    without = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, prefix_reuse=False))
    assert with_reuse.seconds < without.seconds


def test_the_seed_decides_everything():
    random = replace(EVEN, rate=5, spread=0.7)
    first = simulate_serving("mai", CHARTQA, PAIR, random)
    assert simulate_serving("mai", CHARTQA, PAIR, random) == first
    assert simulate_serving("mai", CHARTQA, PAIR, replace(random, seed=1)) != first


FLAT = ModelLatency("flat", ((1088, 0.5), (1536, 0.5)), 0.02)
QUICK = ModelLatency("quick", ((64, 0.004), (512, 0.015)), 0.0008)
LONG = replace(CHARTQA, prompt_tokens=5000)
SHORT = replace(POPE, prompt_tokens=50, tokens=dict.fromkeys(POPE.tokens, 20.0))


@pytest.mark.parametrize("strategy", ["mai", "large_reason"])
@pytest.mark.parametrize(
    ("workload", "latency", "batch"),
    [(CHARTQA, None, 32), (LONG, FLAT, 32), (SHORT, QUICK, 1), (SHORT, QUICK, 4)],
)
def test_planned_engines_keep_up_with_their_stream(strategy, workload, latency, batch):
    """Questions at the end of a long stream wait no longer than those of a short one."""
    pair = {"small": latency, "large": latency} if latency else PAIR
    plan = plan_engines(strategy, workload, pair, 100, Serving(batch_limit=batch))
    share = plan.simulated_rate / plan.rate
    counts = {f"{role}_engines": ceil(n * share) or 1 for role, n in plan.engines.items()}
    stream = Serving(questions=20_000, rate=plan.simulated_rate, batch_limit=batch, **counts)
    served = simulate_serving(strategy, workload, pair, stream)
    assert served.quantile(0.5) < 1.5 * plan.served.quantile(0.5)
    assert served.quantile(0.95) < 1.5 * plan.served.quantile(0.95)


@pytest.mark.parametrize("rate", [1e-6, 0.01, 5])
def test_a_burst_of_arrivals_is_no_queue(rate):
    """One engine of each model would do for several times as much."""
    assert plan_engines("mai", POPE, PAIR, rate, Serving()).engines == {"small": 1, "large": 1}


def test_engines_that_fill_are_no_queue():
    wide = Serving(batch_limit=512)
    plan = plan_engines("large_reason", CHARTQA, PAIR, 20, wide)
    need = 20 * engine_seconds("large_reason", CHARTQA, PAIR, "large", wide)
    assert plan.engines["large"] == ceil(need / UTILIZATION)


def test_with_half_of_the_planned_engines_a_queue_grows():
    plan = plan_engines("large_reason", CHARTQA, PAIR, 5, Serving())
    fewer = Serving(questions=6000, rate=5, large_engines=plan.engines["large"] // 2)
    served = simulate_serving("large_reason", CHARTQA, PAIR, fewer)
    assert served.growth > 1.3 > plan.served.growth
    assert is_overloaded("large_reason", CHARTQA, PAIR, fewer)
    assert not is_overloaded("large_reason", CHARTQA, PAIR, replace(fewer, large_engines=99))


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
