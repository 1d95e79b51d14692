"""`mai bench`, on as few questions as it takes."""

import json

import pytest
from evaluations import mai

from langgraph_mai.benchmarks import bench
from langgraph_mai.benchmarks.records import Record
from langgraph_mai.graph import STRATEGIES


def test_bench_prints_a_table_and_writes_files(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_REPEATS", 1)
    monkeypatch.setattr(bench, "_OVERHEAD_RUNS", 3)
    monkeypatch.setattr(bench, "CONCURRENCY", (1, 2))
    out = tmp_path / "results"
    result = mai("bench", "--questions", "1", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "graph_overhead_ratio" in result.stdout
    records = json.loads((out / "bench.json").read_text())
    found = {record["name"]: record.get("value") for record in records}
    assert len(found) == len(records)
    assert found["wall_over_critical_path"] >= 1.0
    assert found["graph_overhead_ms"] > 0
    assert {"prefix_recomputed_share", "questions_per_second.2", "speedup_2_over_1"} <= set(found)
    assert {f"time_over_mai.{name}" for name in STRATEGIES if name != "mai"} <= set(found)
    assert all(one.get("note") if one["value"] is None else one["value"] >= 0 for one in records)
    made = json.loads((out / "run.json").read_text())
    assert made["settings"] == {"pair": "demo", "questions": 1}
    assert {"torch", "transformers"} <= set(made["versions"])
    assert "| figure | value |" in (out / "bench.md").read_text()


@pytest.fixture
def measured(monkeypatch):
    """Figures without a measurement; counts how often it would have been made."""
    calls = []

    def measure(*_args):
        calls.append(1)
        missing = Record(
            "prefix_recomputed_share", None, "share", note="nothing was computed twice"
        )
        return [Record("graph_overhead_ms", 2.5, "ms", 2.0, 3.0, 1), missing]

    monkeypatch.setattr(bench, "bench", measure)
    return calls


def test_bad_input_is_named_before_the_measurement(tmp_path, measured):
    (tmp_path / "file").write_text("")
    for words, message in [
        (["--pair", "nobody"], "nobody"),
        (["--out", str(tmp_path / "file")], "is a file"),
        (["--out", str(tmp_path / "file" / "below")], "name another folder"),
        (["--out", str(tmp_path / ("x" * 300))], "name another folder"),
    ]:
        result = mai("bench", *words)
        assert result.exit_code == 2
        assert message in result.stderr
    assert measured == []


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_figures_are_printed_though_they_cannot_be_written(tmp_path, measured, words):
    (tmp_path / "bench.json").mkdir()
    result = mai("bench", "--out", str(tmp_path), *words)
    assert result.exit_code == 1
    assert "could not be written" in result.stderr
    assert "graph_overhead_ms" in result.stdout
    if words:
        assert json.loads(result.stdout)[0]["value"] == 2.5
    else:
        assert "nothing was computed twice" in result.stdout  # why there is no value
