"""`mai evaluate` and `mai report`, also as processes that are killed in the middle."""

import csv
import json
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from evaluations import FAST, evaluated, mai, results, stored_calls
from processes import MAI

from langgraph_mai.benchmarks.evaluation.store import FILE_NAME, EvaluationStore

ALL = ("--limit", "11", "--strategy", "all")


def stop_in_the_middle(folder: Path, number: int, *words: str) -> subprocess.Popen[str]:
    """Start an evaluation, and send it a signal when it has stored some calls."""
    process = subprocess.Popen(
        [*MAI, "evaluate", "shapes", "--out", str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end, stored = time.monotonic() + 120, 0
    while stored < 20:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it stores nothing"
        time.sleep(0.02)
        try:
            with closing(sqlite3.connect(f"file:{folder / FILE_NAME}?mode=ro", uri=True)) as file:
                stored = file.execute("SELECT count(*) FROM calls").fetchone()[0]
        except sqlite3.OperationalError:  # there is no file yet, or it makes its tables
            continue
    process.send_signal(number)
    return process


@pytest.fixture(scope="module")
def eleven(tmp_path_factory) -> Path:
    """An evaluation of eleven questions, each of another kind."""
    folder = tmp_path_factory.mktemp("eleven")
    evaluated(folder, *ALL)
    return folder


def test_an_evaluation_leaves_its_files(eleven):
    summary = json.loads((eleven / "summary.json").read_text())
    key = ("strategy", "protocol", "metric", "group")
    (found,) = (
        one for one in summary if [one[name] for name in key] == ["mai", "typed", "accuracy", {}]
    )
    assert found["questions"] == 11
    assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1
    record = json.loads((eleven / "run.json").read_text())
    assert record["data"]["source"].startswith("the demo world, seed ")
    assert len(bytes.fromhex(record["data"]["sha256"])) == 32
    assert record["benchmark"] == "shapes"
    assert "torch" in record["versions"]
    assert record["machine"]["cores"] >= 1
    assert len(results(eleven)) == 121


def test_speculation_generates_what_the_large_model_does(eleven):
    by_strategy = [
        [line["calls"] for line in results(eleven) if line["strategy"] == name]
        for name in ("speculative", "large_reason")
    ]
    for (drafted,), (plain,) in zip(*by_strategy, strict=True):
        assert drafted["text"] == plain["text"]
        assert drafted["output_tokens"] == plain["output_tokens"]
        assert 0 <= drafted["accepted_tokens"] <= drafted["drafted_tokens"]
        assert "drafted_tokens" not in plain


def test_again_it_makes_no_call_and_ends_with_the_same_results(eleven):
    before = results(eleven)
    done = mai("evaluate", "shapes", "--out", str(eleven), *ALL, "--json")
    said = json.loads(done.stdout)
    stored = sum(said["calls_stored"].values())
    assert said["calls_made"] == 0
    assert done.stderr == f"{stored} calls already stored; resuming.\n"
    assert results(eleven) == before
    shown = mai("evaluate", "shapes", "--out", str(eleven), *ALL).stdout
    rate = said["accept_rates"].pop("speculative")
    assert said["accept_rates"] == {}
    assert 0.5 < rate <= 1
    assert f"speculative: {rate:.1%} of the draft's tokens are in the outputs." in shown
    assert "accuracy (%) on 11 questions of shapes" in shown


def test_fewer_questions_take_no_result_away(eleven):
    files = {path.name: path.read_bytes() for path in eleven.glob("*.json*")}
    words = ["evaluate", "shapes", "--out", str(eleven), "--strategy", "small_direct"]
    done = mai(*words, "--limit", "5")
    assert done.exit_code == 2
    assert "holds results of 11 questions, and 6 of them are not asked now" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    # They may be timed, in files of their own.
    assert mai(*words, "--limit", "2", "--timed", "--json").exit_code == 0
    assert {name: (eleven / name).read_bytes() for name in files} == files


def test_more_questions_cost_only_their_own_calls(tmp_path):
    first = evaluated(tmp_path, "--limit", "3", *FAST)
    second = evaluated(tmp_path, "--limit", "5", *FAST)
    total = sum(second["calls_stored"].values())
    assert second["calls_made"] == total - sum(first["calls_stored"].values())
    assert total >= 10


def test_another_pair_does_not_mix_into_a_folder(eleven, write_pair):
    other = write_pair(large={"model": "demo:small", "dtype": "float32", "device": "cpu"})
    before = (eleven / "results.jsonl").read_bytes()
    words = ["evaluate", "shapes", "--limit", "2", "--out", str(eleven)]
    for more, what in (
        (["--pair", other], "large model.weights"),
        (["--prompts", "default"], "prompts."),
    ):
        done = mai(*words, *more)
        assert done.exit_code == 2
        assert "This folder holds calls with another " in done.stderr
        assert f"another {what}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert (eleven / "results.jsonl").read_bytes() == before


def test_killed_in_the_middle_it_resumes_and_ends_with_the_same_results(eleven, tmp_path):
    process = stop_in_the_middle(tmp_path, signal.SIGKILL, *ALL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    kept = stored_calls(tmp_path)
    again = evaluated(tmp_path, *ALL)
    total = sum(again["calls_stored"].values())
    assert 0 < kept < total
    assert again["calls_made"] == total - kept
    assert results(tmp_path) == results(eleven)


def test_ctrl_c_says_what_is_kept(tmp_path):
    process = stop_in_the_middle(tmp_path, signal.SIGINT, "--limit", "300")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "What was answered is kept; the same command continues from there." in err
    assert stored_calls(tmp_path) > 0


def test_nothing_else_runs_in_a_folder_at_the_same_time(tmp_path):
    with EvaluationStore(tmp_path):
        for more in ((), ("--timed",)):
            done = mai("evaluate", "shapes", "--limit", "1", "--out", str(tmp_path), *more)
            assert done.exit_code == 2
            assert "Another 'mai evaluate' is running in" in done.stderr


def test_timed_runs_make_every_call_and_store_none(tmp_path):
    three = [
        word for name in ("large_reason", "speculative", "mai") for word in ("--strategy", name)
    ]
    timing = evaluated(tmp_path, "--limit", "3", "--timed", *three)["timing"]
    assert stored_calls(tmp_path) == 0
    assert timing == json.loads((tmp_path / "timing.json").read_text())
    found = {(one["strategy"], one["name"]): one for one in timing}
    assert found["large_reason", "calls"]["value"] == 3
    assert found["mai", "calls.small.direct"]["value"] == 3
    for kind in ("input_tokens", "output_tokens", "cached_tokens"):
        parts = [one["value"] for (name, key), one in found.items() if name == "mai" and
                 key.startswith(f"{kind}.")]  # fmt: skip
        assert found["mai", kind]["value"] == sum(parts)
    ratio = found["large_reason", "ratio.mai"]
    assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
    median = found["mai", "seconds_per_question.median"]["value"]
    assert median <= found["mai", "seconds_per_question.p95"]["value"]
    assert len((tmp_path / "timed.jsonl").read_text().splitlines()) == 9
    load = json.loads((tmp_path / "timed-run.json").read_text())["machine_load"]
    assert load["before"]["cores"] == load["after"]["cores"] >= 1
    (rate,) = (one for one in timing if one["name"] == "accept_rate")
    assert rate["strategy"] == "speculative"
    assert 0 < rate["value"] <= 1
    # Table 12 comes of an evaluation and its timed run.
    evaluated(tmp_path, "--limit", "3", *three)
    shown = mai("evaluate", "shapes", "--out", str(tmp_path), "--limit", "3", "--timed", *three)
    assert f"{rate['value']:.3f}" in shown.stdout
    done = mai("report", str(tmp_path), "--json")
    assert "decoding" in {one["table"] for one in json.loads(done.stdout)["tables"]}


def test_the_simulator_takes_the_tokens_and_routes_of_a_report(eleven, tmp_path):
    page = tmp_path / "page.html"
    done = mai("report", str(eleven), "--html", str(page), "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    for title in ("Table 10", "Tables 5 and 13", "Tables 6, 7 and 14", "Table 8", "Table 15"):
        assert title in done.stdout
    assert "time both with --timed" in done.stdout
    assert page.read_text().count("data:image/jpeg") >= 3
    files = ["--tokens", str(tmp_path / "economy.csv"), "--routes", str(tmp_path / "routes.csv")]
    done = mai("simulate", *files, "--questions", "5", "--out", str(tmp_path / "simulated"))
    assert done.exit_code == 0, done.output
    with (tmp_path / "economy.csv").open() as file:
        economy = {row["style"]: row for row in csv.DictReader(file) if row["role"] != "small"}
    with (tmp_path / "simulated" / "totals.csv").open() as file:
        totals = {row["strategy"]: row for row in csv.DictReader(file)}
    for strategy, style in [("large_reason", "R"), ("full_transfer", "full transfer")]:
        seen, own = totals[strategy], economy[style]
        assert float(seen["score (%)"]) == pytest.approx(float(own["score"]), abs=0.05)
        tokens = float(own["mean_output_tokens"])
        assert float(seen["output tokens"]) == pytest.approx(tokens, rel=0.03)
    assert totals["mai"]["questions"] == "11"
