"""What was measured with other settings is another measurement, and the tables say which."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from profiled_models import KnownModel

from langgraph_mai.profiling.component_latency import ComponentLatency
from langgraph_mai.profiling.doubts import impossible
from langgraph_mai.profiling.grid import Grid
from langgraph_mai.profiling.machine_rates import MachineRates
from langgraph_mai.profiling.profile_report import records, tables
from langgraph_mai.profiling.profile_rows import SETTINGS, ProfileFile, ProfileRow, read_rows
from langgraph_mai.profiling.target import Target

GRID = Grid(image_sides=(64,), query_tokens=(16,), output_tokens=(2, 5), repeats=1)
RATES = MachineRates(flops=1e9, bandwidth=1e9)
ON_VLLM = Target("known", backend="vllm")
OTHERS = {
    "backend": (Target("known"), {}),
    "weights": (replace(ON_VLLM, random_weights=True), {}),
    "revision": (replace(ON_VLLM, revision="v2"), {}),
    "engine": (replace(ON_VLLM, engine={"enforce_eager": True}), {}),
    "memory": (replace(ON_VLLM, memory=0.5), {"device": torch.device("cuda")}),
    "dtype": (ON_VLLM, {"dtype": torch.bfloat16}),
    "device": (ON_VLLM, {"device": torch.device("cuda")}),
    "attention": (ON_VLLM, {"attention": "eager"}),
}


def measure(folder, target, **facts):
    model = KnownModel(**facts)
    measuring = ComponentLatency(model, ProfileFile(folder), RATES, GRID, target)
    return model, list(measuring.measure())


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("setting", OTHERS)
def test_what_was_measured_with_another_setting_is_measured_again(tmp_path, setting, monkeypatch):
    other, facts = OTHERS[setting]
    base = {"device": facts["device"]} if setting == "memory" else {}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40))
    first = measure(tmp_path, ON_VLLM, **base)[1]
    known, again = measure(tmp_path, ON_VLLM, **base)
    assert not known.runs
    assert [row.key for row in again] == [row.key for row in first]

    anew, rows = measure(tmp_path, other, **facts)
    assert anew.runs
    for old, new in zip(first, rows, strict=True):
        assert old.settings[setting] != new.settings[setting]
    written = read_rows(tmp_path / "profile.csv")
    assert [row.key for row in written] == [row.key for row in [*first, *rows]]
    assert_told_apart(written, {setting})


def assert_told_apart(rows, settings):
    """Every table has a column of what differs, and no two figures have one name."""
    for table in tables(rows):
        assert settings <= set(table.header)
        for name in settings:
            column = {row[list(table.header).index(name)] for row in table.rows}
            assert len(column) == 2
    names = [record.name for record in records(rows)]
    assert len(names) == len(set(names))
    # These two are in every name, and so are not named.
    assert not any(setting in name for name in names for setting in ("dtype=", "attention="))


def test_cpu_threads_are_a_setting_and_are_none_of_a_gpu(tmp_path, monkeypatch):
    with threads(1):
        first = measure(tmp_path, Target("known"))[1]
    with threads(2):
        model, more = measure(tmp_path, Target("known"))
    assert model.runs
    assert ({row.threads for row in first}, {row.threads for row in more}) == ({1}, {2})
    assert_told_apart(read_rows(tmp_path / "profile.csv"), {"threads"})
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40))
    on_gpu = measure(tmp_path, Target("known"), device=torch.device("cuda"))[1]
    assert {row.threads for row in on_gpu} == {None}


def test_the_share_of_memory_is_a_setting_of_vllm_on_a_gpu_only(tmp_path):
    assert {row.memory for row in measure(tmp_path, ON_VLLM)[1]} == {None}
    assert Target("known", memory=0.4).row.memory is None
    assert Target("known", backend="vllm", memory=1 / 3).row.memory == 0.3333


def test_engine_options_are_named_in_any_order_and_are_those_of_vllm():
    options = {"enforce_eager": True, "block_size": 32, "speculative_config": {"method": "ngram"}}
    row = Target("known", backend="vllm", engine=options).row
    assert row.engine == 'block_size=32 enforce_eager=true speculative_config={"method": "ngram"}'
    turned = dict(reversed(options.items()))
    assert Target("known", backend="vllm", engine=turned).row == row
    assert Target("known", engine=options).row.engine == ""


def test_rows_of_an_older_version_stay_beside_the_new_ones(tmp_path):
    rows = measure(tmp_path, Target("known"))[1]
    older = tmp_path / "older"
    file = ProfileFile(older)
    for row in rows:
        file.add(replace(row, threads=None))
    model, new = measure(older, Target("known"))
    assert model.runs
    written = read_rows(older / "profile.csv")
    assert len(written) == len(rows) + len(new)
    assert_told_apart(written, {"threads"})


def test_settings_that_are_all_the_same_take_no_column(tmp_path):
    rows = measure(tmp_path, Target("known", revision="v2"))[1]
    for table in tables(rows):
        beside = set(SETTINGS) - {"backend"} - ({"dtype"} if table.name == "machine" else set())
        assert not beside & set(table.header)
    whole = Target("another", dtype="auto").row
    shown = {table.name: table for table in tables([*rows, replace(whole, skipped="is not there")])}
    assert "dtype" not in shown["skipped"].header
    names = {record.name for record in records(rows)}
    assert "known.transformers.float32.sdpa.ttft.batch1.side64.query16.out1" in names
    assert all("=" not in name for name in names)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_first_token_is_held_against_the_encoder_of_the_same_settings(setting):
    first = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft", median_ms=5.0)
    vision = replace(first, component="vision", median_ms=9.0)
    (sentence,) = impossible([vision, first])
    assert "took 9.0 ms and the first token, with it, 5.0 ms" in sentence
    other = 0.5 if setting in {"memory", "threads"} else "other"
    assert list(impossible([replace(vision, **{setting: other}), first])) == []


def test_every_setting_is_a_column_of_the_file():
    row = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft")
    assert list(row.settings) == list(SETTINGS)
    assert row.settings["memory"] == ""
