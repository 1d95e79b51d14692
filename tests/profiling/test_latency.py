"""Component latencies: from measured rows, and what calls cost by them."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.profiling.csv_rows import ProfilingInputError
from langgraph_mai.profiling.latency import DEFAULT_BATCH_SLOPE, ModelLatency, profile_latency
from langgraph_mai.profiling.profile_rows import ProfileRow

MILLISECONDS = st.floats(0.001, 1e6)
TOKENS = st.integers(1, 20_000)


def row(component, milliseconds, *, batch=1, prompt=100, output=1):
    sizes = {"batch": batch, "input_tokens": prompt, "output_tokens": output}
    common = ("m", "transformers", "float32", "cpu", "sdpa", "real")
    return ProfileRow(*common, component, median_ms=milliseconds, **sizes)


first_tokens = st.lists(
    st.builds(lambda prompt, ms: row("ttft", ms, prompt=prompt), TOKENS, MILLISECONDS), min_size=1
)
decoded = st.lists(
    st.builds(
        lambda output, ms, batch: row("decode", ms, batch=batch, output=output),
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


@given(first_tokens, decoded, st.lists(TOKENS, min_size=2, max_size=6))
def test_any_rows_give_times_that_never_fall_with_more_tokens(first, decode, tokens):
    """Noise makes longer prompts faster here and there, and batches faster than single prompts."""
    latency = profile_latency([*first, *decode], "m")
    tokens = sorted([0, *tokens, *(prompt for prompt, _ in latency.prefill)])
    never_falls(seconds for _, seconds in latency.prefill)
    never_falls(map(latency.prefill_seconds, tokens))
    never_falls(map(latency.suffix_seconds, tokens))
    never_falls(latency.step_seconds(batch) for batch in range(1, 65))
    never_falls(latency.call_seconds(500, output) for output in tokens)
    never_falls(latency.call_seconds(prompt, 10) for prompt in tokens)
    assert latency.prefill_per_token >= 0
    assert latency.seconds_per_token > 0


def test_a_prompt_between_two_measured_ones_costs_in_between():
    latency = ModelLatency("m", ((100, 0.02), (300, 0.04)), 0.01)
    for tokens, seconds in ((200, 0.03), (10, 0.02), (500, 0.06)):
        assert latency.prefill_seconds(tokens) == pytest.approx(seconds)


def test_a_batch_and_an_image_are_measured_apart():
    rows = [row("ttft", 30), row("decode", 80, output=8), row("decode", 136, output=8, batch=8)]
    assert profile_latency(rows, "m").batch_slope == pytest.approx(0.1)  # 1.7 times for 7 more
    assert profile_latency(rows[:2], "m").batch_slope == DEFAULT_BATCH_SLOPE
    rows = [row("preprocess", 4, prompt=0), row("vision", 12, prompt=0)]
    rows += [row("ttft", 50, prompt=200), row("decode", 80, output=8)]
    latency = profile_latency(rows, "m")
    assert latency.prefill == ((200, pytest.approx(0.050 - 0.012 - 0.010)),)
    assert latency.images == ((200, pytest.approx(0.016)),)
    assert latency.prefill_seconds(200) == pytest.approx(0.044)
    together = latency.batch_prefill_seconds(400, [200, 200])
    assert together == pytest.approx(2 * 0.028 + 2 * 0.016)


def test_times_in_order_are_kept_and_others_meet_between():
    step = row("decode", 80, output=8)  # 10 ms a token
    first = [row("ttft", ms, prompt=prompt) for prompt, ms in [(100, 30), (200, 50), (400, 40)]]
    latency = profile_latency([step, *first], "m")
    assert latency.seconds_per_token == pytest.approx(0.01)
    seconds = ((100, 0.02), (200, 0.035), (400, 0.035))
    assert latency.prefill == tuple((tokens, pytest.approx(time)) for tokens, time in seconds)


def test_rows_of_several_ways_to_run_a_model_are_not_mixed():
    rows = [row("ttft", 30), row("decode", 80, output=8)]
    for difference in ("backend", "dtype", "device", "attention", "weights"):
        other = [replace(one, **{difference: "other"}) for one in rows]
        with pytest.raises(ProfilingInputError, match=r"measured in several ways .*other"):
            profile_latency([*rows, *other], "m")
        if difference == "backend":
            assert profile_latency([*rows, *other], "m", "other") == profile_latency(rows, "m")


def test_what_is_no_time_is_refused():
    with pytest.raises(ProfilingInputError, match="takes no time"):
        profile_latency([row("ttft", 30), row("decode", 1e-300)], "m")
    good = {"prefill": ((10, 1.0),), "seconds_per_token": 1.0}
    for wrong in (math.nan, math.inf, -1.0):
        cases = ({"prefill": ((10, wrong),)}, {"seconds_per_token": wrong}, {"batch_slope": wrong})
        for figures in cases:
            with pytest.raises(ValueError, match=r"finite|greater than"):
                ModelLatency("m", **good | figures)
    with pytest.raises(ValueError, match="ascending"):
        ModelLatency("m", ((300, 1.0), (100, 1.0)), 1.0)
    with pytest.raises(ValueError, match="greater than"):
        ModelLatency("m", ((100, 1.0),), 0)
