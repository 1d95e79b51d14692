"""Figures and run records as files, the machine's load, and folders that one process holds."""

import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import langgraph_mai
from langgraph_mai.benchmarks.records import (
    MachineLoad,
    Record,
    holding,
    machine_load,
    write_json,
    write_lines,
    write_records,
    write_run_record,
)
from langgraph_mai.benchmarks.statistics import Estimate
from langgraph_mai.configs import ConfigError

HOLDS = """
import pathlib, sys
from langgraph_mai.benchmarks.records import holding, write_run_record
with holding(pathlib.Path(sys.argv[1]), "mai profile"):
    write_run_record(pathlib.Path(sys.argv[1]))
    print("torch" in sys.modules, flush=True)
    sys.stdin.read()
"""


def test_run_record_names_command_versions_and_machine(tmp_path, monkeypatch):
    words = ["bench", "--out", "my results", "--questions", "3"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/mai", *words])
    settings = {"out": Path("my results"), "batches": (1, 8), "rate": None}
    write_run_record(tmp_path, settings=settings, benchmark="shapes")
    made = json.loads((tmp_path / "run.json").read_text())
    assert shlex.split(made["command"]) == ["mai", *words]
    assert made["settings"] == {"out": "my results", "batches": [1, 8], "rate": None}
    assert (made["benchmark"], made["python"]) == ("shapes", platform.python_version())
    assert made["versions"].get("langgraph-mai", langgraph_mai.__version__)
    assert {"langgraph", "langchain-core", "pillow"} <= set(made["versions"])
    since = datetime.now(UTC) - datetime.fromisoformat(made["finished"])
    assert timedelta(0) <= since < timedelta(minutes=10)
    machine = made["machine"]
    assert set(machine) == {"system", "processor", "cores", "memory_gib", "load_average", "gpus"}
    assert 1 <= machine["cores"] <= os.cpu_count()
    assert machine["memory_gib"] > 0.1
    write_run_record(tmp_path, name="other.json", command=["python", "-m", "measure"])
    other = json.loads((tmp_path / "other.json").read_text())
    assert other["command"] == "python -m measure"


def test_records_are_a_flat_list_of_what_there_is(tmp_path):
    records = [
        Record("time", None, "ms", note="no GPU"),
        Record("advice", "Use it: día.", "text"),
        Record.of("share", Estimate(0.5, 0.2, None, 9, 3), "share"),
    ]
    write_records(tmp_path / "figures.json", records)
    text = (tmp_path / "figures.json").read_text(encoding="utf-8")
    assert json.loads(text) == [
        {"name": "time", "value": None, "unit": "ms", "note": "no GPU"},
        {"name": "advice", "value": "Use it: día.", "unit": "text"},
        {"name": "share", "value": 0.5, "unit": "share", "low": 0.2, "questions": 9},
    ]
    assert "día" in text
    assert [record.number for record in records] == [None, None, 0.5]


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


def test_machine_load_warns_of_other_programs():
    idle = MachineLoad(cores=4, busy_cores=2.0, load_average=9.0)
    busy = MachineLoad(cores=4, busy_cores=2.1, load_average=0.0)
    assert idle.warning("now") is None
    assert busy.warning("before the timing").startswith("Other programs kept 2.1 of 4 cores at")
    load = machine_load(0.1)
    assert 0 <= load.busy_cores <= load.cores
    assert load.cores >= 1


def test_a_folder_is_held_by_one_process_for_each_command(tmp_path):
    folder = tmp_path / "new" / "results"
    for _ in range(2):
        with holding(folder, "mai profile"):
            with pytest.raises(ConfigError) as refusal, holding(folder, "mai profile"):
                pass
            with holding(folder, "mai bench"), holding(tmp_path, "mai profile"):
                pass
    assert str(refusal.value) == (
        f"Another 'mai profile' is running in {str(folder)!r}; wait for it, or name another folder."
    )
    with pytest.raises(ZeroDivisionError), holding(folder, "mai profile"):
        raise ZeroDivisionError
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout.readline() == b"False\n"  # what it needs loads no torch
        with pytest.raises(ConfigError, match="is running"), holding(folder, "mai profile"):
            pass
        other.kill()  # a process that ends, however it does, releases it
    with holding(folder, "mai profile"):
        pass
    (tmp_path / "file").write_text("here")
    (tmp_path / ".mai.lock").mkdir()
    for place in (tmp_path / "file", tmp_path):
        with pytest.raises(ConfigError, match="cannot be written"), holding(place, "mai"):
            pass
