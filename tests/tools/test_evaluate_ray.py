"""`mai evaluate --engine ray`: two workers on this machine, against the engine without Ray."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from evaluations import results, stored_calls
from ray_process import ENVIRONMENT, ray_process
from typer.testing import CliRunner

from langgraph_mai.benchmarks.evaluation import ray as ray_engine
from langgraph_mai.benchmarks.evaluation.store import FILE_NAME
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.tools.cli import app

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]
ON_RAY = ("--engine", "ray", "--replicas", "2")
PATIENCE = 240  # seconds
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def mai(*words: str) -> tuple[int, str, str]:
    """The command in this process: exit code, standard output and standard error."""
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.stdout, done.stderr


def evaluated(run: Callable, *words: str) -> dict:
    code, out, err = run("evaluate", *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> tuple[str, ...]:
    """The words of an evaluation of six questions, two of which are asked like others.

    They differ from these in their type alone, which the demo pair's prompts do not tell.
    """
    folder = tmp_path_factory.mktemp("own")
    lines = []
    for item in held_out(folder / "pictures", 4, seed=77):
        line = {"question": item.question.text, "images": item.image, "answers": item.answer}
        lines.append(line | {"choices": list(item.question.choices)})
    lines += [line | {"answer_type": "free_text"} for line in lines if not line["choices"]][:2]
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ("own", "--data", str(file), "--prompts", "demo", "--strategy", "all")


@pytest.fixture(scope="module")
def local(own, tmp_path_factory) -> tuple[Path, dict]:
    """The evaluation without Ray: its folder and what it says."""
    folder = tmp_path_factory.mktemp("local")
    return folder, evaluated(mai, *own, "--out", str(folder))


@pytest.fixture(scope="module")
def on_ray():
    """The command in a process with one Ray for all of its evaluations."""
    with ray_process() as run:
        yield run


def kill_evaluation(folder: Path, *words: str) -> None:
    """Kill an evaluation by two replicas, on a Ray of its own, in the middle."""
    process = subprocess.Popen(
        [*MAI, "evaluate", *words, "--out", str(folder), *ON_RAY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ENVIRONMENT,
    )
    end = time.monotonic() + PATIENCE
    while not calls_so_far(folder / FILE_NAME):
        assert time.monotonic() < end, "it stores nothing"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def calls_so_far(file: Path) -> int:
    """Count the calls that another process has stored until now."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        try:
            found: int = database.execute("SELECT count(*) FROM calls").fetchone()[0]
        except sqlite3.OperationalError:  # it makes its tables at this moment
            return 0
    return found


def kill_replica(folder: Path) -> None:
    """Kill one of the replicas below this process in the middle of its work."""
    end = time.monotonic() + PATIENCE
    while not own_replicas():
        assert time.monotonic() < end, "there are no replicas"
        time.sleep(0.1)
    wait_until_stored(folder, 1)
    os.kill(own_replicas()[0], signal.SIGKILL)


def wait_until_stored(folder: Path, more: int) -> None:
    """Wait until the log of the folder's store is so many bytes longer than now."""
    log, end = folder / f"{FILE_NAME}-wal", time.monotonic() + PATIENCE
    before = length(log)
    while length(log) < before + more:
        assert time.monotonic() < end, "it stores nothing"
        time.sleep(0.01)


def length(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def own_replicas() -> list[int]:
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    processes = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in processes}

    def is_own(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and is_own(parents[pid]))

    named = [int(pid) for pid, _, *title in processes if "ray::MapWorker" in "".join(title)]
    return [pid for pid in named if is_own(pid)]


@needs_ray
def test_killed_in_the_middle_two_workers_end_with_the_results_of_none(
    own, local, on_ray, tmp_path
):
    """In the run that goes on, one of the workers is killed too."""
    folder, said = local
    total = said["calls_made"]
    assert total <= 4 * 10  # equal ones are one call
    kill_evaluation(tmp_path, *own)
    kept = stored_calls(tmp_path)
    assert 0 < kept < total
    with ThreadPoolExecutor(1) as beside:
        killing = beside.submit(kill_replica, tmp_path)
        again = evaluated(on_ray, *own, "--out", str(tmp_path), *ON_RAY)
        killing.result()
    assert again["calls_made"] == total - kept
    for key in ("summary", "calls_stored", "failures", "failed_calls", "questions", "strategies"):
        assert again[key] == said[key], key
    assert results(tmp_path) == results(folder)
    # All is known now: no worker is needed to say it once more.
    assert evaluated(on_ray, *own, "--out", str(tmp_path), *ON_RAY)["calls_made"] == 0


@needs_ray
def test_failures_are_counted_as_without_ray(on_ray, tmp_path):
    away = tmp_path / "away.yaml"
    away.write_text(
        "backend: server\n"
        "small: {model: s, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
        "large: {model: l, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
    )
    words = ("evaluate", "shapes", "--pair", str(away), "--limit", "2", "--json")
    words += ("--strategy", "mai", "--strategy", "large_direct")
    local_code, local_out, _ = mai(*words, "--out", str(tmp_path / "local"))
    code, out, err = on_ray(*words, "--out", str(tmp_path / "ray"), *ON_RAY)
    assert (local_code, code) == (1, 1)
    assert sum(line.startswith("failed") for line in err.splitlines()) == 4, err
    # Event loops word the system's reason in their own ways.
    texts = [re.sub(r"\(\[Errno .*?\); start", "(refused); start", t) for t in (local_out, out)]
    here, there = map(json.loads, texts)
    for key in ("failures", "calls_made", "calls_stored"):
        assert there[key] == here[key], key
    calls = [sorted(map(str, said["failed_calls"])) for said in (here, there)]
    assert len(calls[0]) == 4
    assert calls[0] == calls[1]


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://somewhere:1", "nowhere"])
def test_a_cluster_that_is_not_there_is_one_sentence(address, on_ray, tmp_path):
    words = ("--limit", "1", "--engine", "ray", "--ray-address", address)
    code, _, err = on_ray("evaluate", "shapes", "--out", str(tmp_path), *words)
    assert code == 2
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
    code, _, err = mai("evaluate", "shapes", "--out", str(tmp_path / "out"), *words)
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    code, _, err = mai("evaluate", "shapes", "--out", str(tmp_path / "out"), "--engine", "ray")
    assert code == 2
    assert err.startswith("The ray engine needs Ray: pip install")
    assert not (tmp_path / "out").exists()
