"""`mai evaluate --engine ray`: two workers on this machine, against the engine without Ray."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from evaluations import mai, results, stored_calls
from processes import MAI
from ray_process import ENVIRONMENT, ray_process

from langgraph_mai import load_pair
from langgraph_mai.answers import agree
from langgraph_mai.benchmarks.evaluation import ray as ray_engine
from langgraph_mai.benchmarks.evaluation.store import FILE_NAME
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.nodes.confidence import Calibration
from langgraph_mai.nodes.gate import describe_cascade

ON_RAY = ("--engine", "ray", "--replicas", "2")
ONE_BY_ONE = (*ON_RAY, "--concurrency", "1")  # each question is stored before the next begins
PATIENCE = 600  # seconds
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def here(*words: str) -> tuple[int, str, str]:
    """The command in this process: exit code, standard output and standard error."""
    done = mai(*words)
    return done.exit_code, done.stdout, done.stderr


def evaluated(run: Callable, *words: str) -> dict:
    code, out, err = run("evaluate", *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> tuple[str, ...]:
    """The words of an evaluation of eight questions, two of which are asked like others.

    They differ from these in their type alone, which the demo pair's prompts do not tell.
    """
    folder = tmp_path_factory.mktemp("own")
    lines = []
    for item in held_out(folder / "pictures", 6, seed=77):
        line = {"question": item.question.text, "images": item.image, "answers": item.answer}
        lines.append(line | {"choices": list(item.question.choices)})
    lines += [line | {"answer_type": "free_text"} for line in lines if not line["choices"]][:2]
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    strategies = ("--strategy", "mai", "--strategy", "small_two_stage", "--strategy", "speculative")
    return ("own", "--data", str(file), "--prompts", "demo", *strategies)


@pytest.fixture(scope="module")
def on_ray():
    """The command in a process with one Ray for all of its evaluations."""
    with ray_process() as run:
        yield run


def wait_for(what: Callable[[], int], at_least: int = 1) -> None:
    end = time.monotonic() + PATIENCE
    while what() < at_least:
        assert time.monotonic() < end, what
        time.sleep(0.02)


def results_so_far(folder: Path) -> int:
    """Count the results that another process has stored until now."""
    try:
        with closing(sqlite3.connect(f"file:{folder / FILE_NAME}?mode=ro", uri=True)) as database:
            return database.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:  # there is no file yet, or it makes its tables
        return 0


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


def kill_evaluation(folder: Path, *words: str) -> None:
    """Kill an evaluation by two replicas, on a Ray of its own, when a question is stored."""
    process = subprocess.Popen(
        [*MAI, "evaluate", *words, "--out", str(folder), *ONE_BY_ONE],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | ENVIRONMENT,
    )
    wait_for(lambda: results_so_far(folder))
    process.kill()
    process.wait()


def kill_replica(folder: Path) -> None:
    """Kill one of the replicas below this process when a further question is stored."""
    before = results_so_far(folder)
    wait_for(lambda: len(own_replicas()), 2)
    wait_for(lambda: results_so_far(folder), before + 1)
    os.kill(own_replicas()[0], signal.SIGKILL)


@needs_ray
def test_killed_in_the_middle_two_workers_end_with_the_results_of_none(own, on_ray, tmp_path):
    """In the run that goes on, one of the workers is killed too."""
    alone, folder = tmp_path / "local", tmp_path / "ray"
    said = evaluated(here, *own, "--out", str(alone))
    assert said["calls_made"] <= 6 * 6  # equal ones are one call
    kill_evaluation(folder, *own)
    kept = stored_calls(folder)
    assert 0 < kept < said["calls_made"]
    with ThreadPoolExecutor(1) as beside:
        killing = beside.submit(kill_replica, folder)
        again = evaluated(on_ray, *own, "--out", str(folder), *ONE_BY_ONE)
        killing.result()
    assert again["calls_made"] == said["calls_made"] - kept
    for key in ("summary", "calls_stored", "failures", "failed_calls", "questions", "strategies"):
        assert again[key] == said[key], key
    assert results(folder) == results(alone)
    # All is known now: no worker is needed to say it once more.
    assert evaluated(on_ray, *own, "--out", str(folder), *ON_RAY)["calls_made"] == 0


@needs_ray
def test_a_gate_goes_with_the_replicas(on_ray, tmp_path):
    pair = load_pair("demo")
    calibration = Calibration(
        benchmark="shapes",
        cascade=describe_cascade(pair.small, pair.large, pair.prompts, "full", agree),
        risk=0.05,
        delta=0.05,
        questions=100,
        losses_allowed=1,
        losses=0,
        threshold=0.8,
        figures={},
        confidence={},
    )
    (tmp_path / "gate.json").write_text(calibration.model_dump_json())
    words = ("shapes", "--limit", "10", "--strategy", "mai_gated")
    words += ("--gate", str(tmp_path / "gate.json"))
    said = evaluated(here, *words, "--out", str(tmp_path / "local"))
    there = evaluated(on_ray, *words, "--out", str(tmp_path / "ray"), *ON_RAY)
    assert there["calls_made"] == said["calls_made"]
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert "confident" in {line["route"] for line in results(tmp_path / "ray")}


@needs_ray
def test_failures_are_counted_as_without_ray(on_ray, away, tmp_path):
    words = ("evaluate", "shapes", "--pair", away, "--limit", "2", "--json")
    words += ("--strategy", "mai", "--strategy", "large_direct")
    local_code, local_out, _ = here(*words, "--out", str(tmp_path / "local"))
    code, out, err = on_ray(*words, "--out", str(tmp_path / "ray"), *ON_RAY)
    assert (local_code, code) == (1, 1)
    assert sum(line.startswith("failed") for line in err.splitlines()) == 4, err
    # Event loops word the system's reason in their own ways.
    texts = [re.sub(r"\(\[Errno .*?\); start", "(refused); start", t) for t in (local_out, out)]
    local, there = map(json.loads, texts)
    for key in ("failures", "calls_made", "calls_stored"):
        assert there[key] == local[key], key
    calls = [sorted(map(str, said["failed_calls"])) for said in (local, there)]
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
        (["--engine", "ray"], "The ray engine needs Ray: pip install"),
    ],
)
def test_options_that_do_not_go_together_or_lack_ray(words, said, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    code, _, err = here("evaluate", "shapes", "--out", str(tmp_path / "out"), *words)
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()
