"""`mai evaluate --engine ray`: two workers on this machine, against the engine without Ray."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_mai.benchmarks.evaluation import ray_engine
from langgraph_mai.benchmarks.evaluation.call_store import FILE_NAME, CallStore
from langgraph_mai.tools.cli import app

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]
ELEVEN = ("--limit", "11", "--strategy", "all")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def command(folder: Path, *words: str) -> list[str]:
    return [*MAI, "evaluate", "shapes", "--out", str(folder), "--json", *words]


def on_ray(folder: Path, *words: str) -> subprocess.Popen[str]:
    """An evaluation by two replicas, in a process of its own, which Ray's warnings do not leave."""
    return subprocess.Popen(
        command(folder, "--engine", "ray", "--replicas", "2", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},  # else Ray leaves a token in the home
    )


def finished(process: subprocess.Popen[str]) -> dict:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def results(folder: Path) -> list[dict]:
    """All results, without seconds and cached tokens, which differ from run to run."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        for call in line["calls"]:
            call["seconds"] = call["cached_tokens"] = 0
    return lines


def stored(folder: Path) -> int:
    with CallStore(folder) as store:
        return sum(store.count_calls().values())


@pytest.fixture(scope="module")
def eleven(tmp_path_factory) -> tuple[Path, dict]:
    """An evaluation of eleven questions without Ray: its folder and what it says."""
    folder = tmp_path_factory.mktemp("eleven")
    done = subprocess.run(command(folder, *ELEVEN), capture_output=True, text=True, check=True)
    return folder, json.loads(done.stdout)


@needs_ray
def test_killed_in_the_middle_two_workers_end_with_the_results_of_none(eleven, tmp_path):
    local, said = eleven
    process = on_ray(tmp_path, *ELEVEN)
    log = tmp_path / f"{FILE_NAME}-wal"
    end = time.monotonic() + 240
    while not (log.exists() and log.stat().st_size > 150_000):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it stores nothing"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    kept = stored(tmp_path)
    assert 0 < kept < sum(said["calls_stored"].values())
    again = finished(on_ray(tmp_path, *ELEVEN))
    assert again["calls_made"] == said["calls_made"] - kept
    for key in ("summary", "calls_stored", "failures", "failed_calls", "questions", "strategies"):
        assert again[key] == said[key], key
    assert results(tmp_path) == results(local)
    # All is known now: no worker is needed to say it once more.
    assert finished(on_ray(tmp_path, *ELEVEN))["calls_made"] == 0


@needs_ray
def test_failures_are_counted_as_without_ray(tmp_path):
    away = tmp_path / "away.yaml"
    away.write_text(
        "backend: server\n"
        "small: {model: s, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
        "large: {model: l, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
    )
    words = ("--pair", str(away), "--limit", "2", "--strategy", "mai", "--strategy", "large_direct")
    local = subprocess.run(
        command(tmp_path / "local", *words), capture_output=True, text=True, check=False
    )
    process = on_ray(tmp_path / "ray", *words)
    out, err = process.communicate(timeout=300)
    assert (local.returncode, process.returncode) == (1, 1)
    assert sum(line.startswith("failed") for line in err.splitlines()) == 4, err
    # Event loops word the system's reason in their own ways.
    texts = [re.sub(r"\(\[Errno .*?\); start", "(refused); start", t) for t in (local.stdout, out)]
    here, there = map(json.loads, texts)
    for key in ("failures", "calls_made", "calls_stored"):
        assert there[key] == here[key], key
    calls = [sorted(map(str, said["failed_calls"])) for said in (here, there)]
    assert len(calls[0]) == 4
    assert calls[0] == calls[1]


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://somewhere:1", "nowhere"])
def test_a_cluster_that_is_not_there_is_one_sentence(address, tmp_path):
    process = on_ray(tmp_path, "--limit", "1", "--ray-address", address)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 2
    assert f"The Ray cluster at '{address}' cannot be joined" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "dask"], "--engine takes local or ray"),
        (["--replicas", "2"], "go with --engine ray"),
        (["--engine", "ray", "--timed"], "--timed measures this machine"),
    ],
)
def test_options_that_do_not_go_together(words, said, tmp_path):
    done = CliRunner().invoke(app, ["evaluate", "shapes", "--out", str(tmp_path / "out"), *words])
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    words = ["evaluate", "shapes", "--out", str(tmp_path / "out"), "--engine", "ray"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert done.stderr.startswith("The ray engine needs Ray: pip install")
    assert not (tmp_path / "out").exists()
