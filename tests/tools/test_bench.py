"""`mai bench`, on as few questions as it takes."""

import json

import pytest
from typer.testing import CliRunner

from langgraph_mai.benchmarks import bench
from langgraph_mai.benchmarks.records import Record
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.tools.cli import app


def mai(*words):
    return CliRunner().invoke(app, [*words])


def test_bench_prints_a_table_and_writes_files(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_REPEATS", 1)
    monkeypatch.setattr(bench, "_OVERHEAD_RUNS", 3)
    monkeypatch.setattr(bench, "CONCURRENCY", (1, 2))
    out = tmp_path / "results"
    result = mai("bench", "--questions", "1", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "graph_overhead_ratio" in result.stdout
    names = [record["name"] for record in json.loads((out / "bench.json").read_text())]
    assert {"wall_over_critical_path", "graph_overhead_ms", "speedup_2_over_1"} <= set(names)
    assert sum(name.startswith("time_over_mai.") for name in names) == len(STRATEGIES) - 1
    made = json.loads((out / "run.json").read_text())
    assert made["settings"] == {"pair": "demo", "questions": 1}
    assert {"torch", "transformers"} <= set(made["versions"])
    assert (out / "bench.md").read_text().startswith("| figure |")


def test_an_unknown_pair_is_bad_input():
    result = mai("bench", "--pair", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.stderr


def test_a_file_for_out_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    result = mai("bench", "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "is a file" in result.stderr
    assert "name another folder" in result.stderr


@pytest.fixture
def measured(monkeypatch):
    """Figures without a measurement; counts how often it would have been made."""
    calls = []

    def measure(*_args):
        calls.append(1)
        missing = Record("prefix_recomputed_share", None, "share", note="nothing was disputed")
        return [Record("graph_overhead_ms", 2.5, "ms", 2.0, 3.0, 1), missing]

    monkeypatch.setattr(bench, "bench", measure)
    return calls


@pytest.mark.parametrize("name", ["below/file", "x" * 300])
def test_a_folder_that_cannot_be_written_is_named_before_the_measurement(tmp_path, measured, name):
    (tmp_path / "below").write_text("")
    result = mai("bench", "--out", str(tmp_path / name))
    assert result.exit_code == 2
    assert "name another folder" in result.stderr
    assert measured == []


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_figures_are_printed_though_they_cannot_be_written(tmp_path, measured, words):
    (tmp_path / "bench.json").mkdir()
    result = mai("bench", "--out", str(tmp_path), *words)
    assert result.exit_code == 1
    assert "could not be written" in result.stderr
    assert measured == [1]
    assert "graph_overhead_ms" in result.stdout
    if words:
        assert json.loads(result.stdout)[0]["value"] == 2.5


def test_a_figure_without_a_value_says_why(tmp_path, measured):
    result = mai("bench", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "nothing was disputed" in result.stdout
    record = json.loads((tmp_path / "bench.json").read_text())[1]
    assert (record["value"], record["note"]) == (None, "nothing was disputed")
    assert "nothing was disputed" in (tmp_path / "bench.md").read_text()
