"""The figures of `mai bench`, each on runs whose seconds and calls are known."""

import json

import pytest
from fakes import PROMPTS

from langgraph_mai import Pair, create_mai, load_pair
from langgraph_mai.benchmarks import bench
from langgraph_mai.benchmarks.bench import (
    InstantModel,
    critical_path,
    graph_overhead,
    recomputed,
    table,
    write_bench,
)
from langgraph_mai.benchmarks.datasets import load_shapes
from langgraph_mai.benchmarks.evaluation.timed import TimedRun, time_strategies
from langgraph_mai.benchmarks.records import Record

INSTANT = Pair("instant", InstantModel(answer="1"), InstantModel(answer="2"), PROMPTS)


def call(role, style, seconds):
    return {"role": role, "style": style, "seconds": seconds, "cached_tokens": 0, "text": "1"}


def run_of(*timed):
    """A timed run with the seconds, route and calls of each question."""
    results = [{"route": route, "calls": calls, "error": None} for _, route, calls in timed]
    return TimedRun("mai", results, [seconds for seconds, *_ in timed])


@pytest.fixture
def questions(tmp_path):
    return load_shapes(3, tmp_path, seed=41_414).questions


def test_critical_path_is_the_longer_direct_call_and_what_follows():
    direct = [call("small", "direct", 1.0), call("large", "direct", 2.0)]
    reasoned = [*direct, call("small", "reason", 2.0)]
    transferred = [*reasoned, call("large", "transfer", 4.0)]
    run = run_of(
        (2.2, "direct", direct), (8.0, "reasoned", reasoned), (12.0, "transferred", transferred)
    )
    name = "wall_over_critical_path"
    assert {one.name: one.value for one in critical_path(run)} == pytest.approx(
        {name: 1.5, f"{name}.direct": 1.1, f"{name}.reasoned": 2.0, f"{name}.transferred": 1.5}
    )


def test_overhead_is_compared_with_an_empty_graph_in_one_run(questions, monkeypatch):
    monkeypatch.setattr(bench, "_OVERHEAD_RUNS", 3)
    found = {one.name: one for one in graph_overhead(INSTANT, questions[0])}
    assert all(one.value > 0 for one in found.values())  # how large is the benchmark's to say
    assert {one.note for one in found.values()} == {"3 runs of one question"}


@pytest.mark.parametrize(("kept", "share"), [(None, 0.0), (0, 1.0)])
def test_prefix_tokens_are_computed_twice_only_without_a_prefix_cache(questions, kept, share):
    demo = load_pair("demo")
    if kept is not None:
        update = {"prefix_cache_bytes": kept}
        models = [one.model_copy(update=update) for one in (demo.small, demo.large)]
        demo = Pair("demo", *models, demo.prompts)
    graph = create_mai(
        demo.small, demo.large, prompts=demo.prompts, verifier=lambda _one, _other: "disagree"
    )
    (run,) = time_strategies({"mai": graph}, questions, models=(demo.small, demo.large))
    (record,) = recomputed(demo, questions, run)
    assert (record.name, record.value, record.questions) == ("prefix_recomputed_share", share, 3)


def test_recomputed_share_without_a_value_says_why(questions):
    agreed = run_of(*[(1.0, "direct", [call("small", "direct", 1.0)])] * 3)
    (record,) = recomputed(INSTANT, questions, agreed)
    assert (record.value, record.note) == (None, "the models do not count their tokens")
    (record,) = recomputed(load_pair("demo"), questions, agreed)
    assert (record.value, record.questions) == (None, 0)
    assert "both models agreed on all 3 questions" in record.note


def test_goals_are_met_missed_or_not_measured(tmp_path):
    records = [
        Record("graph_overhead_ratio", 1.9, "ratio", 1.8, 2.0, 9),
        Record("speedup_32_over_1", 3.0, "ratio", 2.0, 3.5, 9),
        Record("graph_overhead_ms", 1.2, "ms", None, None, 9, "of one question"),
        Record("prefix_recomputed_share", None, "share", questions=0),
    ]
    assert [row[1:] for row in table(records).rows] == [
        ("1.9", "1.8 to 2", "9", "at most 2.0", "yes"),
        ("3", "2 to 3.5", "9", "at least 4.0", "no"),
        ("1.2 ms", "", "9", "", ""),
        ("not measured", "", "0", "at most 0.05", "not measured"),
    ]
    write_bench(tmp_path, records, pair="demo")
    assert "graph_overhead_ms: of one question." in (tmp_path / "bench.md").read_text()
    first, *_ = json.loads((tmp_path / "bench.json").read_text())
    assert first == {
        "name": "graph_overhead_ratio", "value": 1.9, "unit": "ratio", "low": 1.8, "high": 2.0,
        "questions": 9,
    }  # fmt: skip
    assert json.loads((tmp_path / "run.json").read_text())["settings"] == {"pair": "demo"}
