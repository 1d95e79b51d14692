"""Floors against a calculation by hand, for a model whose work is known."""

import pytest
from profiled_models import KnownModel

from langgraph_mai.profiling.component_latency import ComponentLatency
from langgraph_mai.profiling.grid import Grid
from langgraph_mai.profiling.machine_rates import MachineRates
from langgraph_mai.profiling.profile_rows import ProfileFile
from langgraph_mai.profiling.target import Target

GRID = Grid(
    image_sides=(64,), query_tokens=(18,), output_tokens=(2, 6), batches=(1, 4), repeats=3, warmup=2
)
FAST = 1e30


def rows_of(folder, rates, model=None):
    model = model or KnownModel()
    target = Target(model.name)
    rows = ComponentLatency(model, ProfileFile(folder), rates, GRID, target).measure()
    return {(row.component, row.batch, row.output_tokens): row for row in rows}


# A picture of 64 pixels takes 2 tokens, so a prompt has 20. Flops: 11 a pixel of the side, 13 a
# token of a prompt, 17 a token of a step's context. Bytes: 3 a pixel and 500 prepared, 3,000 of
# the vision encoder, 7,000 of the language model, 19 a token of the cache.
FLOPS = {
    ("vision", 1, 0): 11 * 64,
    ("vision", 4, 0): 11 * 64 * 4,
    ("ttft", 1, 1): 11 * 64 + 13 * 20,
    ("ttft", 4, 1): (11 * 64 + 13 * 20) * 4,
    ("decode", 1, 2): 2 * 17 * 21,
    ("decode", 1, 6): 6 * 17 * 23,
    ("decode", 4, 2): 2 * 17 * 21 * 4,
    ("decode", 4, 6): 6 * 17 * 23 * 4,
}
BYTES = {
    ("preprocess", 1, 0): 3 * 64 * 64 + 500,
    ("preprocess", 4, 0): 3 * 64 * 64 * 4 + 500,
    ("vision", 1, 0): 3_000,
    ("vision", 4, 0): 3_000,
    ("ttft", 1, 1): 10_000,
    ("ttft", 4, 1): 10_000,
    ("decode", 1, 2): 2 * (7_000 + 19 * 21),
    ("decode", 1, 6): 6 * (7_000 + 19 * 23),
    ("decode", 4, 2): 2 * (7_000 + 19 * 21 * 4),
    ("decode", 4, 6): 6 * (7_000 + 19 * 23 * 4),
}


def test_where_computing_is_slow_the_floor_is_the_operations(tmp_path):
    rows = rows_of(tmp_path, MachineRates(flops=1000.0, bandwidth=FAST))
    for cell, flops in FLOPS.items():
        assert rows[cell].floor_ms == pytest.approx(flops)
        assert rows[cell].bound == "compute"
        assert rows[cell].gflops == 1e-6


def test_where_memory_is_slow_the_floor_is_the_bytes(tmp_path):
    rows = rows_of(tmp_path, MachineRates(flops=FAST, bandwidth=1000.0))
    assert rows.keys() == BYTES.keys()
    for cell, moved in BYTES.items():
        assert rows[cell].floor_ms == pytest.approx(moved)
        assert rows[cell].bound == "memory"
        assert rows[cell].gigabytes == 1e-6


def test_operations_that_are_counted_take_the_place_of_those_from_the_shapes(tmp_path):
    rates = MachineRates(flops=1000.0, bandwidth=FAST)
    rows = rows_of(tmp_path, rates, KnownModel(counted_flops=123))
    for (component, batch, written), row in rows.items():
        if component in {"vision", "ttft"}:
            assert row.floor_ms == pytest.approx(123)
        elif component == "decode":
            assert row.floor_ms == pytest.approx(FLOPS[component, batch, written])
        else:
            assert row.floor_ms < 1e-9


def test_the_figures_are_those_of_the_runs(tmp_path):
    model = KnownModel()
    rows = rows_of(tmp_path, MachineRates(flops=FAST, bandwidth=FAST), model)
    medians = {"preprocess": 2.0, "vision": 3.0, "ttft": 20.0}
    for (component, _, written), row in rows.items():
        expected = medians.get(component, 5.0 * written)
        for figure in (row.median_ms, row.low_ms, row.high_ms):
            assert figure == pytest.approx(expected)
        assert row.repeats == 3
    # For each batch: two runs that do not count, then three; outputs in three runs of the longest.
    assert model.runs.count("preprocess") == model.runs.count("encode") == 2 * 5
    assert model.runs.count("write 1") == 2 * 5
    assert model.runs.count("write 7") == 2 * 3
    assert model.runs.count("write 3") == 0
