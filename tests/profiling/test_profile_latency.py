"""From measured rows to component latencies: whatever was measured, they are times."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_mai.profiling.errors import ProfilingInputError
from langgraph_mai.profiling.latency import DEFAULT_BATCH_SLOPE, ModelLatency
from langgraph_mai.profiling.profile_latency import profile_latency
from langgraph_mai.profiling.profile_rows import ProfileRow

MILLISECONDS = st.floats(0.001, 1e6)
TOKENS = st.integers(1, 20_000)


def row(component, milliseconds, *, batch=1, read=100, written=1):
    return ProfileRow(
        model="m",
        backend="transformers",
        dtype="float32",
        device="cpu",
        attention="sdpa",
        weights="real",
        component=component,
        batch=batch,
        input_tokens=read,
        output_tokens=written,
        median_ms=milliseconds,
    )


first_tokens = st.lists(
    st.builds(lambda read, ms: row("ttft", ms, read=read), TOKENS, MILLISECONDS), min_size=1
)
decoded = st.lists(
    st.builds(
        lambda written, ms, batch: row("decode", ms, batch=batch, written=written),
        st.integers(1, 600),
        MILLISECONDS,
        st.sampled_from([1, 1, 2, 8]),
    ),
    min_size=1,
).filter(lambda rows: any(one.batch == 1 for one in rows))


def never_falls(values):
    values = list(values)
    assert all(math.isfinite(value) and value >= 0 for value in values)
    # A rounding error is no fall.
    assert all(later >= before * (1 - 1e-9) for before, later in pairwise(values))


@settings(deadline=None)
@given(first_tokens, decoded, st.lists(TOKENS, min_size=2, max_size=6))
def test_any_rows_give_times_that_never_fall_with_more_tokens(first, decode, tokens):
    """Noise makes longer prompts faster here and there, and batches faster than single prompts."""
    latency = profile_latency([*first, *decode], "m")
    tokens = sorted([0, *tokens, *(read for read, _ in latency.prefill)])
    never_falls(seconds for _, seconds in latency.prefill)
    never_falls(map(latency.prefill_seconds, tokens))
    never_falls(map(latency.suffix_seconds, tokens))
    never_falls(latency.step_seconds(batch) for batch in range(1, 65))
    never_falls(latency.call_seconds(500, written) for written in tokens)
    never_falls(latency.call_seconds(read, 10) for read in tokens)
    assert latency.prefill_per_token >= 0
    assert latency.seconds_per_token > 0


def test_rows_of_an_older_version_stand_back():
    """They say less of how they were measured, and count where nothing else does."""
    old = [row("ttft", 99), row("decode", 999, written=8)]
    new = [replace(one, threads="1") for one in (row("ttft", 30), row("decode", 80, written=8))]
    assert profile_latency([*old, *new], "m") == profile_latency(new, "m")
    assert profile_latency(old, "m").seconds_per_token == pytest.approx(999 / 8 / 1000)


def test_what_a_batch_costs_is_read_from_its_rows():
    rows = [row("ttft", 30), row("decode", 80, written=8), row("decode", 136, written=8, batch=8)]
    assert profile_latency(rows, "m").batch_slope == pytest.approx(0.1)  # 1.7 times for 7 more
    assert profile_latency(rows[:2], "m").batch_slope == DEFAULT_BATCH_SLOPE


def test_the_picture_of_a_prompt_is_told_apart():
    rows = [row("preprocess", 4, read=0), row("vision", 12, read=0)]
    rows += [row("ttft", 50, read=200), row("decode", 80, written=8)]
    latency = profile_latency(rows, "m")
    assert latency.prefill == ((200, pytest.approx(0.050 - 0.012 - 0.010)),)
    assert latency.pictures == ((200, pytest.approx(0.016)),)
    assert latency.prefill_seconds(200) == pytest.approx(0.044)
    assert latency.read_seconds(400, [200, 200]) == pytest.approx(2 * 0.028 + 2 * 0.016)


def test_decoding_that_takes_no_time_is_refused():
    with pytest.raises(ProfilingInputError, match="takes no time"):
        profile_latency([row("ttft", 30), row("decode", 1e-300)], "m")


def test_times_in_order_are_kept_and_others_meet_between():
    step = row("decode", 80, written=8)  # 10 ms a token
    first = [row("ttft", ms, read=read) for read, ms in [(100, 30), (200, 50), (400, 40)]]
    latency = profile_latency([step, *first], "m")
    assert latency.seconds_per_token == pytest.approx(0.01)
    assert latency.prefill == (
        (100, pytest.approx(0.02)),
        (200, pytest.approx(0.035)),
        (400, pytest.approx(0.035)),
    )


@pytest.mark.parametrize("difference", ["backend", "dtype", "device", "attention", "weights"])
def test_rows_of_several_ways_to_run_a_model_are_not_mixed(difference):
    rows = [row("ttft", 30), row("decode", 80, written=8)]
    other = [replace(one, **{difference: "other"}) for one in rows]
    with pytest.raises(ProfilingInputError, match=r"measured in several ways .*other"):
        profile_latency([*rows, *other], "m")
    if difference == "backend":
        assert profile_latency([*rows, *other], "m", "other") == profile_latency(rows, "m")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_what_is_no_time_is_refused(wrong):
    for figures in (
        {"prefill": ((10, wrong),), "seconds_per_token": 1.0},
        {"prefill": ((10, 1.0),), "seconds_per_token": wrong},
        {"prefill": ((10, 1.0),), "seconds_per_token": 1.0, "batch_slope": wrong},
    ):
        with pytest.raises(ValueError, match="finite and not negative"):
            ModelLatency("m", **figures)
