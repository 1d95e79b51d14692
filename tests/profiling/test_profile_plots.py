"""What the plots of a profile show, and what they say of it."""

from dataclasses import replace

import pytest

from langgraph_mai.profiling.profile_plots import call_components, decode_line, profile_plots
from langgraph_mai.profiling.profile_rows import ProfileRow

COMMON = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft", input_tokens=100)


def ttft(tokens, milliseconds, side=256):
    sizes = {"image_side": side, "query_tokens": tokens - 64, "input_tokens": tokens}
    return replace(COMMON, output_tokens=1, median_ms=milliseconds, **sizes)


def decode(side, query, written, milliseconds):
    sizes = {"image_side": side, "query_tokens": query, "output_tokens": written}
    return replace(COMMON, component="decode", median_ms=milliseconds, **sizes)


def test_the_line_of_a_model_is_that_of_one_prompt():
    """Pictures of two sides may take as many tokens: their times are not joined."""
    rows = [decode(512, 64, n, 3.0 * n) for n in (8, 128)]
    rows += [decode(256, 64, n, 2.0 * n) for n in (128, 8)]
    rows += [decode(256, 256, 8, 99.0), replace(decode(256, 64, 8, 50.0), batch=8)]
    assert [(row.output_tokens, row.median_ms) for row in decode_line(rows)] == [
        (8, 16),
        (128, 256),
    ]
    assert decode_line([ttft(128, 20.0)]) == []


@pytest.mark.parametrize(
    ("longest_read", "longest_written", "marked"),
    [(600, 512, set()), (600, 16, {"m R"}), (128, 512, {"m transfer"})],
)
def test_a_call_beyond_what_was_measured_is_marked(longest_read, longest_written, marked):
    rows = [ttft(128, 20.0), ttft(longest_read, 40.0), decode(256, 64, 8, 80.0)]
    rows += [decode(256, 64, longest_written, 10.0 * longest_written)]
    found = call_components({"m": rows})
    assert {name for name, call in found.items() if call.extrapolated} == marked
    *_, prefill, written = found["m R"].milliseconds
    assert written == pytest.approx(2560)
    # The first token is a step of 10 ms; two measurements of one length meet between.
    assert prefill == pytest.approx(20 if longest_read == 128 else 10)


def test_there_are_plots_of_what_was_measured_only():
    skipped = replace(decode(256, 64, 8, 1.0), median_ms=None, skipped="too long")
    assert profile_plots([skipped]) == {}
    assert set(profile_plots([decode(256, 64, 8, 16.0), skipped])) == {"decode"}
    every = profile_plots([ttft(128, 20.0), decode(256, 64, 8, 16.0)])
    assert set(every) == {"decode", "components"}
    assert all(drawn.startswith(b"\x89PNG") for drawn in every.values())
