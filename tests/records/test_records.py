import json
import os
import platform
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import langgraph_mai
from langgraph_mai.configs import ConfigError
from langgraph_mai.records.json_files import write_json, write_lines
from langgraph_mai.records.record import Record, write_records
from langgraph_mai.records.run_record import write_run_record


def written(folder: Path, name: str = "run.json") -> dict:
    return json.loads((folder / name).read_text())


def test_a_run_record_says_what_made_the_figures(tmp_path, monkeypatch):
    words = ["bench", "--out", "my results", "--questions", "3"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/mai", *words])
    settings = {"out": Path("my results"), "batches": (1, 8), "rate": None}
    write_run_record(tmp_path, settings=settings, benchmark="shapes")
    made = written(tmp_path)
    assert shlex.split(made["command"]) == ["mai", *words]
    assert made["settings"] == {"out": "my results", "batches": [1, 8], "rate": None}
    assert made["benchmark"] == "shapes"
    assert made["python"] == platform.python_version()
    assert made["versions"]["langgraph-mai"] == langgraph_mai.__version__
    assert {"langgraph", "langchain-core", "pillow"} <= set(made["versions"])
    since = datetime.now(UTC) - datetime.fromisoformat(made["finished"])
    assert timedelta(0) <= since < timedelta(minutes=10)


def test_a_run_record_names_the_machine(tmp_path):
    write_run_record(tmp_path, name="other.json", command=["python", "-m", "measure"])
    made = written(tmp_path, "other.json")
    assert made["command"] == "python -m measure"
    machine = made["machine"]
    assert set(machine) == {"system", "processor", "cores", "memory_gib", "load_average", "gpus"}
    assert 1 <= machine["cores"] <= os.cpu_count()
    assert machine["memory_gib"] > 0.1
    assert machine["system"] == platform.platform()


def test_a_run_record_loads_no_torch(tmp_path):
    import subprocess

    code = (
        "import sys; from pathlib import Path; "
        "from langgraph_mai.records.run_record import write_run_record; "
        f"write_run_record(Path({str(tmp_path)!r})); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@given(
    low=st.none() | st.floats(0, 1),
    questions=st.none() | st.integers(0),
    note=st.sampled_from(["", "nothing was disputed"]),
)
def test_a_record_holds_what_there_is_and_no_more(low, questions, note):
    record = Record("share", 0.5, "share", low, None, questions, note)
    plain = record.as_dict()
    assert {key: plain[key] for key in ("name", "value", "unit")} == {
        "name": "share",
        "value": 0.5,
        "unit": "share",
    }
    rest = {"low": low, "questions": questions, "note": note or None}
    assert {key: plain.get(key) for key in rest} == rest
    assert None not in plain.values()


def test_records_are_a_flat_list(tmp_path):
    records = [Record("time", None, "ms", note="no GPU"), Record("advice", "Use it: día.", "text")]
    write_records(tmp_path / "figures.json", records)
    text = (tmp_path / "figures.json").read_text(encoding="utf-8")
    assert json.loads(text) == [
        {"name": "time", "value": None, "unit": "ms", "note": "no GPU"},
        {"name": "advice", "value": "Use it: día.", "unit": "text"},
    ]
    assert "día" in text
    assert [record.number for record in [*records, Record("n", 2, "calls")]] == [None, None, 2]


def test_files_are_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "figures.jsonl"
    write_lines(path, [{"a": 1}, {"b": 2}])
    assert path.read_text() == '{"a": 1}\n{"b": 2}\n'
    with pytest.raises(TypeError):
        write_lines(path, [{"a": 3}, {"b": {1, 2}}])
    with pytest.raises(TypeError):
        write_json(path, object())
    assert path.read_text() == '{"a": 1}\n{"b": 2}\n'
    (tmp_path / "taken.json").mkdir()
    with pytest.raises(ConfigError, match="taken"):
        write_json(tmp_path / "taken.json", [])
    assert {file.name for file in tmp_path.iterdir()} == {"figures.jsonl", "taken.json"}
