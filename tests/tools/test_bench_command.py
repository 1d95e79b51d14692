"""`mai bench`, on as few questions as it takes."""

import json

import pytest
from typer.testing import CliRunner

from langgraph_mai.tools.cli import app


def mai(*words):
    return CliRunner().invoke(app, [*words])


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch):
    from langgraph_mai.benchmarks import speed

    monkeypatch.setattr(speed, "_REPEATS", 1)
    monkeypatch.setattr(speed, "_OVERHEAD_RUNS", 3)


def test_bench_prints_a_table_and_writes_files(tmp_path):
    out = tmp_path / "results"
    result = mai("bench", "--questions", "2", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "graph_overhead_ms" in result.stdout
    names = [record["name"] for record in json.loads((out / "bench.json").read_text())]
    assert {"wall_over_critical_path", "graph_overhead_ms", "speedup_32_over_1"} <= set(names)
    assert sum(name.startswith("time_over_mai.") for name in names) == 9
    assert set(json.loads((out / "run.json").read_text())) == {
        "command",
        "python",
        "versions",
        "machine",
    }
    assert (out / "bench.md").read_text().startswith("| figure |")


def test_bench_prints_json_alone():
    result = mai("bench", "--questions", "1", "--json")
    assert result.exit_code == 0
    records = json.loads(result.stdout)
    assert all(set(record) >= {"name", "value", "unit"} for record in records)


def test_an_unknown_pair_is_bad_input():
    result = mai("bench", "--pair", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.stderr


def test_a_file_for_out_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    result = mai("bench", "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "name a folder" in result.stderr
