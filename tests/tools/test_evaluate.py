"""`mai evaluate` and `mai report`, also as processes that are killed in the middle."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evaluations import FAST, evaluated, mai, results, stored_calls

from langgraph_mai.benchmarks.evaluation.store import FILE_NAME

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]


def stop_in_the_middle(folder: Path, number: int, *words: str) -> subprocess.Popen[str]:
    """Start an evaluation, and send it a signal when it has stored some calls."""
    process = subprocess.Popen(
        [*MAI, "evaluate", "shapes", "--out", str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = folder / f"{FILE_NAME}-wal"
    end = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size > 250_000):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it stores nothing"
        time.sleep(0.02)
    os.kill(process.pid, number)
    return process


@pytest.fixture(scope="module")
def eleven(tmp_path_factory) -> Path:
    """An evaluation of eleven questions, each of another kind."""
    folder = tmp_path_factory.mktemp("eleven")
    evaluated(folder, "--limit", "11", "--strategy", "all")
    return folder


def test_an_evaluation_leaves_its_files(eleven):
    summary = json.loads((eleven / "summary.json").read_text())
    (mai_typed,) = (
        one
        for one in summary
        if (one["strategy"], one["protocol"], one["metric"]) == ("mai", "typed", "accuracy")
        and not one["group"]
    )
    assert mai_typed["questions"] == 11
    assert 0 <= mai_typed["low"] <= mai_typed["value"] <= mai_typed["high"] <= 1
    record = json.loads((eleven / "run.json").read_text())
    assert record["benchmark"] == "shapes"
    assert "torch" in record["versions"]
    assert record["machine"]["cores"] >= 1
    assert len(results(eleven)) == 121


def test_speculation_writes_what_the_large_model_does_and_tells_its_accept_rate(eleven):
    by_strategy = {
        name: [line for line in results(eleven) if line["strategy"] == name]
        for name in ("speculative", "large_reason")
    }
    for one, other in zip(*by_strategy.values(), strict=True):
        (drafted,), (plain,) = one["calls"], other["calls"]
        assert drafted["text"] == plain["text"]
        assert drafted["output_tokens"] == plain["output_tokens"]
        assert 0 <= drafted["accepted_tokens"] <= drafted["drafted_tokens"]
        assert "drafted_tokens" not in plain
    record = json.loads((eleven / "run.json").read_text())
    assert list(record["accept_rates"]) == ["speculative"]
    assert 0.5 < record["accept_rates"]["speculative"] <= 1
    shown = mai("evaluate", "shapes", "--out", str(eleven), "--limit", "11", "--strategy", "all")
    rate = f"{record['accept_rates']['speculative']:.1%}"
    assert f"speculative: {rate} of the draft's tokens are in the outputs." in shown.stdout


def test_again_it_makes_no_call_and_ends_with_the_same_results(eleven):
    before = results(eleven)
    words = ("--limit", "11", "--strategy", "all", "--json")
    done = mai("evaluate", "shapes", "--out", str(eleven), *words)
    said = json.loads(done.stdout)
    stored = sum(said["calls_stored"].values())
    assert said["calls_made"] == 0
    assert done.stderr == f"{stored} calls already stored; resuming.\n"
    assert results(eleven) == before


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


def test_more_questions_cost_only_their_own_calls(eleven, tmp_path):
    first = evaluated(tmp_path, "--limit", "3", *FAST)
    second = evaluated(tmp_path, "--limit", "5", *FAST)
    total = sum(second["calls_stored"].values())
    assert second["calls_made"] == total - sum(first["calls_stored"].values())
    assert total >= 10


def test_another_pair_does_not_mix_into_a_folder(eleven, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(
        "prompts: demo\nsmall: {model: demo:small, dtype: float32, device: cpu}\n"
        "large: {model: demo:small, dtype: float32, device: cpu}\n"
    )
    before = (eleven / "results.jsonl").read_bytes()
    words = ["evaluate", "shapes", "--limit", "2", "--out", str(eleven)]
    for more, what in (
        (["--pair", str(other)], "large model"),
        (["--prompts", "default"], "prompts"),
    ):
        done = mai(*words, *more)
        assert done.exit_code == 2
        assert f"This folder holds calls with another {what}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert (eleven / "results.jsonl").read_bytes() == before


def test_killed_in_the_middle_it_resumes_and_ends_with_the_same_results(eleven, tmp_path):
    words = ("--limit", "11", "--strategy", "all")
    process = stop_in_the_middle(tmp_path, signal.SIGKILL, *words)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    kept = stored_calls(tmp_path)
    again = evaluated(tmp_path, *words)
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


def test_report_shows_tables_and_writes_a_page(eleven, tmp_path):
    page = tmp_path / "page.html"
    done = mai("report", str(eleven), "--html", str(page), "--out", str(tmp_path / "report"))
    assert done.exit_code == 0, done.output
    for title in ("Table 10", "Tables 5 and 13", "Tables 6, 7 and 14", "Table 8", "Table 15"):
        assert title in done.stdout
    assert "time both with --timed" in " ".join(done.stdout.split())
    assert page.read_text().count("data:image/jpeg") >= 3
    names = {path.suffix for path in (tmp_path / "report").iterdir()}
    assert names == {".md", ".json", ".jsonl", ".csv", ".png"}
    records = json.loads((tmp_path / "report" / "report.json").read_text())
    assert {"table", "name", "value", "low", "high", "questions"} <= set(records[0])
    made = json.loads((tmp_path / "report" / "report-run.json").read_text())
    assert made["settings"]["folders"] == [str(eleven)]


def test_the_simulator_takes_the_tokens_and_routes_of_a_report(eleven, tmp_path):
    assert mai("report", str(eleven), "--no-plots", "--out", str(tmp_path)).exit_code == 0
    files = ["--tokens", str(tmp_path / "economy.csv"), "--routes", str(tmp_path / "routes.csv")]
    done = mai("simulate", *files, "--questions", "5", "--out", str(tmp_path / "simulated"))
    assert done.exit_code == 0, done.output
    with (tmp_path / "economy.csv").open() as file:
        economy = {row["style"]: row for row in csv.DictReader(file) if row["role"] != "small"}
    with (tmp_path / "simulated" / "totals.csv").open() as file:
        totals = {row["strategy"]: row for row in csv.DictReader(file)}
    for strategy, style in [("large_reason", "R"), ("full_transfer", "full transfer")]:
        assert float(totals[strategy]["score (%)"]) == pytest.approx(
            float(economy[style]["score"]), abs=0.05
        )
        assert float(totals[strategy]["output tokens"]) == pytest.approx(
            float(economy[style]["mean_output_tokens"]), rel=0.03
        )
    assert totals["mai"]["questions"] == "11"
