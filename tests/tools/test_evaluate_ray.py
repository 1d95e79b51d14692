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
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.tools.cli import app

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]
ON_RAY = ("--engine", "ray", "--replicas", "2")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")

# Ray uses what it has deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def mai(*words: str):
    return CliRunner().invoke(app, [*words])


def evaluated(*words: str) -> dict:
    done = mai("evaluate", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


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
    return folder, evaluated(*own, "--out", str(folder))


@pytest.fixture(scope="module")
def _ray():
    """One Ray for all evaluations of this process, which start none of their own then."""
    os.environ |= {
        "RAY_AUTH_MODE": "disabled",  # else Ray leaves a token in the home
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_BACKEND_LOG_LEVEL": "fatal",
    }
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def killed(folder: Path, *words: str) -> None:
    """An evaluation by two replicas on a Ray of its own, which is killed in the middle."""
    process = subprocess.Popen(
        [*MAI, "evaluate", *words, "--out", str(folder), *ON_RAY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
    )
    log = folder / f"{FILE_NAME}-wal"
    end = time.monotonic() + 240
    while not (log.exists() and log.stat().st_size > 100_000):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it stores nothing"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@needs_ray
@pytest.mark.usefixtures("_ray")
def test_killed_in_the_middle_two_workers_end_with_the_results_of_none(own, local, tmp_path):
    folder, said = local
    total = sum(said["calls_stored"].values())
    assert said["calls_made"] == total <= 4 * 9  # those that are asked alike are one call
    killed(tmp_path, *own)
    kept = stored(tmp_path)
    assert 0 < kept < total
    again = evaluated(*own, "--out", str(tmp_path), *ON_RAY)
    assert again["calls_made"] == total - kept
    for key in ("summary", "calls_stored", "failures", "failed_calls", "questions", "strategies"):
        assert again[key] == said[key], key
    assert results(tmp_path) == results(folder)
    # All is known now: no worker is needed to say it once more.
    assert evaluated(*own, "--out", str(tmp_path), *ON_RAY)["calls_made"] == 0


@needs_ray
@pytest.mark.usefixtures("_ray")
def test_failures_are_counted_as_without_ray(tmp_path):
    away = tmp_path / "away.yaml"
    away.write_text(
        "backend: server\n"
        "small: {model: s, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
        "large: {model: l, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
    )
    words = ("--pair", str(away), "--limit", "2", "--strategy", "mai", "--strategy", "large_direct")
    local, on_ray = (
        mai("evaluate", "shapes", "--out", str(tmp_path / name), "--json", *words, *more)
        for name, more in (("local", ()), ("ray", ON_RAY))
    )
    assert (local.exit_code, on_ray.exit_code) == (1, 1)
    failed = [line for line in on_ray.stderr.splitlines() if line.startswith("failed")]
    assert len(failed) == 4, on_ray.stderr
    # Event loops word the system's reason in their own ways.
    here, there = (
        json.loads(re.sub(r"\(\[Errno .*?\); start", "(refused); start", done.stdout))
        for done in (local, on_ray)
    )
    for key in ("failures", "calls_made", "calls_stored"):
        assert there[key] == here[key], key
    calls = [sorted(map(str, said["failed_calls"])) for said in (here, there)]
    assert len(calls[0]) == 4
    assert calls[0] == calls[1]


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://somewhere:1", "nowhere"])
def test_a_cluster_that_is_not_there_is_one_sentence(address, tmp_path):
    words = ("--limit", "1", "--engine", "ray", "--ray-address", address)
    done = mai("evaluate", "shapes", "--out", str(tmp_path), *words)
    assert done.exit_code == 2
    assert f"The Ray cluster at '{address}' cannot be joined" in done.stderr
    assert len(done.stderr.splitlines()) == 1


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
