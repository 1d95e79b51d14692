"""Engines under load, against what can be computed by hand."""

from dataclasses import replace
from math import ceil
from statistics import fmean, pstdev

import pytest

from langgraph_mai.profiling.latency import ModelLatency
from langgraph_mai.profiling.paper import paper_latencies, paper_workloads
from langgraph_mai.profiling.serving import (
    PREFILL_TOKENS,
    UTILIZATION,
    Serving,
    engine_seconds,
    is_overloaded,
    simulate_serving,
)

PAIR = paper_latencies()
POPE, _, _, CHARTQA, _ = paper_workloads()
EVEN = Serving(questions=200, concurrency=16, batch=16, spread=0)


def test_every_question_is_answered_at_any_load():
    for rate in (1e-6, 1e-3, 0.5, 5, 500):
        served = simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, rate=rate, concurrency=1))
        assert len(served.responses) == 200
        assert 0 < served.busy["large"] <= 1
    alone = replace(EVEN, questions=1, rate=0.001)
    served = simulate_serving("large_direct", CHARTQA, PAIR, alone)
    assert served.seconds == served.responses[0] < 1


def test_a_batch_of_equal_calls_takes_the_time_of_its_steps():
    served = simulate_serving("large_reason", CHARTQA, PAIR, replace(EVEN, questions=16))
    tokens = CHARTQA.tokens["large", "reason"]
    large = PAIR["large"]
    prefill = large.prefill_seconds(16 * CHARTQA.prompt_tokens)
    # The first call arrives alone and is encoded before the others; each image is encoded.
    prefill += large.prefill_seconds(CHARTQA.prompt_tokens) - large.prefill_per_token * 320
    prefill += 14 * large.image_seconds(CHARTQA.prompt_tokens)
    assert served.seconds == pytest.approx(prefill + tokens * large.step_seconds(16), rel=0.01)
    assert served.batch["large"] == pytest.approx(16, rel=0.01)


def test_more_capacity_devices_engines_and_reuse_save_time():
    narrow = simulate_serving("small_reason", POPE, PAIR, replace(EVEN, batch=4))
    assert narrow.batch["small"] <= 4
    assert simulate_serving("small_reason", POPE, PAIR, EVEN).seconds < narrow.seconds
    changes = (
        {"devices": 1, "prefix_reuse": False},
        {"devices": 1},
        {},
        {"small_engines": 2, "large_engines": 2},
    )
    times = [
        simulate_serving("mai", CHARTQA, PAIR, replace(EVEN, **change)).seconds
        for change in changes
    ]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)


def test_one_device_takes_both_engines_in_turns():
    """Both direct answers concurrently on one device take as long as one after the other."""
    agreed = replace(POPE, verified_by_reasoning=0, reasoning_transfer=0)
    alone = replace(EVEN, concurrency=1, questions=50, devices=1)
    together = simulate_serving("mai", agreed, PAIR, alone)
    in_turns = simulate_serving("mai", agreed, PAIR, replace(alone, overlap=False))
    assert together.seconds == pytest.approx(in_turns.seconds)


@pytest.mark.parametrize("questions", [64, 400])
def test_concurrent_questions_are_spread_over_the_engines(questions):
    crowd = replace(EVEN, questions=questions, concurrency=64, batch=8)
    one = simulate_serving("large_reason", CHARTQA, PAIR, crowd)
    four = simulate_serving("large_reason", CHARTQA, PAIR, replace(crowd, large_engines=4))
    assert four.rate == pytest.approx(4 * one.rate, rel=0.15)


def test_each_image_of_prompts_that_are_encoded_together_is_encoded():
    """However many they are: 0.4 s of each for the encoder, 0.1 s for its tokens."""
    slow = ModelLatency("slow", ((1088, 0.1),), 0.01, images=((1088, 0.4),))
    wide = replace(CHARTQA, prompt_tokens=1088, tokens=dict.fromkeys(CHARTQA.tokens, 1.0))
    served = simulate_serving("large_direct", wide, {"small": slow, "large": slow}, EVEN)
    assert served.rate == pytest.approx(1 / 0.5, rel=0.01)


def test_so_many_prompt_tokens_are_encoded_together_and_no_more():
    flat = ModelLatency("flat", ((100, 0.5), (9000, 0.5)), 0.001)
    crowd, tokens = replace(EVEN, questions=16), dict.fromkeys(CHARTQA.tokens, 1.0)
    for prompt, seconds in ((PREFILL_TOKENS / 4, 16 / 4 * 0.5), (PREFILL_TOKENS / 2 + 1, 16 * 0.5)):
        workload = replace(CHARTQA, prompt_tokens=prompt, tokens=tokens)
        served = simulate_serving("large_direct", workload, {"small": flat, "large": flat}, crowd)
        assert served.seconds == pytest.approx(seconds, rel=0.02)


def test_lengths_spread_as_much_as_is_set():
    alone = replace(EVEN, questions=2000, concurrency=1)
    for spread in (0.0, 0.5, 1.0):
        served = simulate_serving("large_reason", CHARTQA, PAIR, replace(alone, spread=spread))
        prefill = PAIR["large"].prefill_seconds(CHARTQA.prompt_tokens)
        decode = [seconds - prefill for seconds in served.responses]
        assert pstdev(decode) / fmean(decode) == pytest.approx(spread, rel=0.1, abs=1e-6)
        assert fmean(decode) / PAIR["large"].seconds_per_token == pytest.approx(294.3, rel=0.05)


def test_the_seed_decides_everything():
    random = replace(EVEN, rate=5, spread=0.7)
    first = simulate_serving("mai", CHARTQA, PAIR, random)
    assert simulate_serving("mai", CHARTQA, PAIR, random) == first
    assert simulate_serving("mai", CHARTQA, PAIR, replace(random, seed=1)) != first


FLAT = ModelLatency("flat", ((1088, 0.5), (1536, 0.5)), 0.02)
QUICK = ModelLatency("quick", ((64, 0.004), (512, 0.015)), 0.0008)
LONG = replace(CHARTQA, prompt_tokens=5000)
SHORT = replace(POPE, prompt_tokens=50, tokens=dict.fromkeys(POPE.tokens, 20.0))


def planned(needs, rate):
    return {role: ceil(rate * need / UTILIZATION) for role, need in needs.items()}


@pytest.mark.parametrize("strategy", ["mai", "large_reason"])
@pytest.mark.parametrize(
    ("workload", "latency", "batch", "rate"),
    [(CHARTQA, None, 32, 10), (LONG, FLAT, 32, 10), (SHORT, QUICK, 4, 100)],
)
def test_planned_engines_keep_up_with_their_stream(strategy, workload, latency, batch, rate):
    """Questions of a long stream wait no longer than those of a short one."""
    pair = {"small": latency, "large": latency} if latency else PAIR
    needs = engine_seconds(strategy, workload, pair, Serving(batch=batch))
    counts = {f"{role}_engines": max(1, count) for role, count in planned(needs, rate).items()}
    stream = Serving(rate=rate, batch=batch, **counts)
    short, long = (
        simulate_serving(strategy, workload, pair, replace(stream, questions=questions))
        for questions in (500, 2000)
    )
    assert long.quantile(0.5) < 1.5 * short.quantile(0.5)
    assert long.quantile(0.95) < 1.5 * short.quantile(0.95)
    assert not is_overloaded(needs, stream)


def test_with_half_of_the_planned_engines_a_queue_grows():
    needs = engine_seconds("large_reason", CHARTQA, PAIR, Serving())
    assert needs["small"] == 0
    engines = planned(needs, 5)["large"] // 2
    fewer = Serving(questions=500, rate=5, large_engines=engines)
    assert is_overloaded(needs, fewer)
    assert is_overloaded(needs, replace(fewer, devices=1))
    assert not is_overloaded(needs, replace(fewer, large_engines=99))
    assert not is_overloaded(needs, replace(fewer, rate=None))
    short, long = (
        simulate_serving("large_reason", CHARTQA, PAIR, replace(fewer, questions=questions))
        for questions in (500, 2000)
    )
    assert long.quantile(0.5) > 2 * short.quantile(0.5)


def test_a_draft_takes_more_engines_by_the_papers_accept_rate():
    needs = {
        name: engine_seconds(name, CHARTQA, PAIR, EVEN)
        for name in ("speculative", "large_reason", "mai")
    }
    assert needs["speculative"]["small"] == 0  # it computes beside its target
    assert needs["speculative"]["large"] > needs["large_reason"]["large"] > needs["mai"]["large"]
    served = simulate_serving("speculative", CHARTQA, PAIR, EVEN)
    plain = simulate_serving("large_reason", CHARTQA, PAIR, EVEN)
    assert served.rate == pytest.approx(plain.rate * 0.83, rel=0.02)


@pytest.mark.parametrize(
    "change", [{"questions": 0}, {"rate": -1}, {"devices": 3}, {"spread": -1}, {"batch": 0}]
)
def test_settings_that_cannot_be_are_refused(change):
    with pytest.raises(ValueError, match="Input should be"):
        replace(EVEN, **change)
