"""`mai evaluate` and `mai report`, also as processes that are killed in the middle."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from langgraph_mai import load_pair
from langgraph_mai.benchmarks.datasets import load_benchmark
from langgraph_mai.benchmarks.evaluation.call_store import FILE_NAME, CallStore
from langgraph_mai.benchmarks.evaluation.evaluate import claimed
from langgraph_mai.benchmarks.report.decoding import METHODS
from langgraph_mai.configs import load_prompts
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.tools.cli import app

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]
FAST = ("--strategy", "mai", "--strategy", "large_direct")


def mai(*words: str):
    return CliRunner().invoke(app, [*words])


def evaluated(folder: Path, *words: str) -> dict:
    done = mai("evaluate", "shapes", "--out", str(folder), "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def stored_calls(folder: Path) -> int:
    with CallStore(folder) as store:
        return sum(store.count_calls().values())


def results(folder: Path) -> list[dict]:
    """All results, without seconds and cached tokens, which differ from run to run."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        for call in line["calls"]:
            call["seconds"] = call["cached_tokens"] = 0
    return lines


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


def test_all_is_what_a_pair_can_do_and_the_rest_is_named(tmp_path):
    away = tmp_path / "away.yaml"
    away.write_text(
        "backend: server\n"
        "small: {model: s, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
        "large: {model: l, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
    )
    words = ["evaluate", "shapes", "--pair", str(away), "--limit", "1"]
    done = mai(*words, "--out", str(tmp_path / "all"), "--strategy", "all", "--json")
    first, *_ = done.stderr.splitlines()
    assert first.startswith("Without speculative: Speculative decoding needs a large model that")
    assert "ChatServer takes none" in first
    failed = [one["strategy"] for one in json.loads(done.stdout)["failures"]]
    assert failed == [name for name in STRATEGIES if name != "speculative"]
    done = mai(*words, "--out", str(tmp_path / "one"), "--strategy", "speculative")
    assert done.exit_code == 2
    assert "ChatServer takes none" in done.stderr


def test_two_models_of_other_tokens_do_not_speculate(tmp_path, qwen_checkpoint):
    pair = tmp_path / "mixed.yaml"
    pair.write_text(f"small: {{model: 'demo:small'}}\nlarge: {{model: '{qwen_checkpoint}'}}\n")
    words = ["evaluate", "shapes", "--pair", str(pair), "--limit", "1", "--out", str(tmp_path)]
    done = mai(*words, "--strategy", "speculative")
    assert done.exit_code == 2
    assert "their tokenizers differ" in done.stderr


def test_again_it_makes_no_call_and_ends_with_the_same_results(eleven):
    before = results(eleven)
    words = ("--limit", "11", "--strategy", "all", "--json")
    done = mai("evaluate", "shapes", "--out", str(eleven), *words)
    said = json.loads(done.stdout)
    stored = sum(said["calls_stored"].values())
    assert said["calls_made"] == 0
    assert done.stderr == f"{stored} calls already stored; going on.\n"
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


def test_other_questions_of_the_same_name_do_not_mix_into_a_folder(tmp_path):
    Image.new("RGB", (96, 96), "red").save(tmp_path / "red.png")
    out = tmp_path / "out"

    def asked(*lines: dict):
        file = tmp_path / "mine.jsonl"
        every = [{"images": "red.png", "answers": "no"} | line for line in lines]
        file.write_text("".join(json.dumps(line) + "\n" for line in every))
        words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct"]
        return mai(*words, "--out", str(out))

    star, ball = {"question": "Is there a star?"}, {"question": "Is there a ball?"}
    assert asked(star, ball).exit_code == 0
    files = {path.name: path.read_bytes() for path in out.glob("*.json*")}
    Image.new("RGB", (96, 96), "blue").save(tmp_path / "blue.png")
    for other in ({"question": "Is there a ring?"}, ball | {"images": "blue.png"}):
        done = asked(star, other)
        assert done.exit_code == 2
        assert "In this folder '2' is the id of another question" in done.stderr
    assert {name: (out / name).read_bytes() for name in files} == files
    # Right answers may be corrected, and questions added.
    assert asked(star | {"answers": "yes"}, ball, {"question": "Is it red?"}).exit_code == 0
    assert len(results(out)) == 3


def test_pictures_on_the_web_are_fetched_if_that_is_allowed(tmp_path, web):
    address, requests = web
    file = tmp_path / "mine.jsonl"
    line = {"question": "Is there a star?", "images": f"{address}/red.png", "answers": "no"}
    file.write_text(json.dumps(line) + "\n" + json.dumps(line | {"question": "Is it red?"}))
    words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct"]
    out = tmp_path / "out"
    done = mai(*words, "--out", str(out))
    assert done.exit_code == 1
    assert "was not fetched because downloads are off; set allow_fetch=True" in done.stderr
    assert requests == []
    for _ in range(2):
        done = mai(*words, "--out", str(out), "--allow-fetch")
        assert done.exit_code == 0, done.output
        assert requests == ["/red.png"]
    file.write_text(json.dumps(line | {"images": f"{address}/gone.png"}))
    done = mai(*words, "--out", str(tmp_path / "new"), "--allow-fetch")
    assert done.exit_code == 2
    assert f"question 1: '{address}/gone.png' was answered with HTTP status 404" in done.stderr


@pytest.fixture
def web():
    """A web server with one picture: its address, and the paths that were asked for."""
    requests = []
    stream = BytesIO()
    Image.new("RGB", (96, 96), "red").save(stream, "PNG")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_response(200 if self.path == "/red.png" else 404)
            self.end_headers()
            self.wfile.write(stream.getvalue())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/x/y", "x" * 300])
def test_a_folder_that_cannot_be_is_bad_input(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for more in ((), ("--timed",)):
        done = mai("evaluate", "shapes", "--limit", "1", "--out", out, *more)
        assert done.exit_code == 2
        assert f"'{out}' cannot be written (" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


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


def test_killed_in_the_middle_it_goes_on_and_ends_with_the_same_results(eleven, tmp_path):
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
    assert "What was answered is kept; the same command goes on from there." in err
    assert stored_calls(tmp_path) > 0


def test_a_model_that_is_away_fails_every_question_in_a_line_each(tmp_path):
    away = tmp_path / "away.yaml"
    away.write_text(
        "backend: server\n"
        "small: {model: s, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
        "large: {model: l, base_url: 'http://127.0.0.1:9/v1', retries: 0}\n"
    )
    out = tmp_path / "out"
    words = ["evaluate", "shapes", "--pair", str(away), "--limit", "2", "--strategy", "mai"]
    done = mai(*words, "--out", str(out), "--json")
    assert done.exit_code == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("failed")]
    assert len(lines) == 2
    assert lines[0].startswith("failed 0000")
    said = json.loads(done.stdout)
    assert [one["strategy"] for one in said["failures"]] == ["mai", "mai"]
    assert {one["role"] for one in said["failed_calls"]} == {"small", "large"}
    assert said["calls_stored"] == {}
    # The pair names no wording of its own: the benchmark's is taken.
    record = json.loads((out / "run.json").read_text())
    assert record["prompts"] == load_prompts("demo").model_dump()
    assert record["failures"] == said["failures"]


def test_questions_of_ones_own(tmp_path):
    Image.new("RGB", (96, 96), "red").save(tmp_path / "red.png")
    file = tmp_path / "mine.jsonl"
    lines = [
        {"question": "Is there a star?", "images": "red.png", "answers": "no"},
        {"question": "Is there a star?", "images": "red.png", "answers": "no"},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct", "--json"]
    done = mai(*words, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    # The two are the same but for their ids.
    assert (said["questions"], said["calls_made"]) == (2, 1)
    assert len(results(tmp_path / "out")) == 2


def test_timed_runs_make_every_call_and_store_none(tmp_path):
    done = evaluated(tmp_path, "--limit", "4", "--timed", *FAST)
    assert stored_calls(tmp_path) == 0
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing == done["timing"]
    found = {(one["strategy"], one["name"]): one for one in timing}
    assert found["large_direct", "calls"]["value"] == 4
    assert found["mai", "calls.small.direct"]["value"] == 4
    for kind in ("input_tokens", "output_tokens", "cached_tokens"):
        parts = [
            one["value"]
            for (strategy, name), one in found.items()
            if strategy == "mai" and name.startswith(f"{kind}.")
        ]
        assert found["mai", kind]["value"] == sum(parts)
    ratio = found["large_direct", "ratio.mai"]
    assert ratio["value"] > 0
    assert ratio["low"] <= ratio["value"] <= ratio["high"]
    median = found["mai", "seconds_per_question.median"]["value"]
    assert median <= found["mai", "seconds_per_question.p95"]["value"]
    lines = (tmp_path / "timed.jsonl").read_text().splitlines()
    assert len(lines) == 8
    load = json.loads((tmp_path / "timed-run.json").read_text())["machine_load"]
    assert load["before"]["cores"] == load["after"]["cores"] >= 1
    assert "accept_rate" not in {name for _, name in found}


def test_nothing_else_runs_in_a_folder_while_it_is_timed(tmp_path):
    pair = load_pair()
    shapes = load_benchmark("shapes", limit=1, folder=tmp_path)
    with claimed(tmp_path, shapes, pair, pair.prompts):
        for more in ((), ("--timed",)):
            done = mai("evaluate", "shapes", "--limit", "1", "--out", str(tmp_path), *more)
            assert done.exit_code == 2
            assert "Another evaluation is running in" in done.stderr


def test_table_12_comes_of_an_evaluation_and_its_timed_run(tmp_path):
    three = [word for name in METHODS for word in ("--strategy", name)]
    evaluated(tmp_path, "--limit", "3", *three)
    timing = evaluated(tmp_path, "--limit", "3", "--timed", *three)["timing"]
    (rate,) = (one for one in timing if one["name"] == "accept_rate")
    assert rate["strategy"] == "speculative"
    # Without an interval where all questions are alike.
    low, high = (rate.get(end, rate["value"]) for end in ("low", "high"))
    assert 0 < low <= rate["value"] <= high <= 1
    shown = mai("evaluate", "shapes", "--out", str(tmp_path), "--limit", "3", "--timed", *three)
    assert f"{rate['value']:.1%}" in shown.stdout
    done = mai("report", str(tmp_path), "--out", str(tmp_path / "report"))
    assert "(Table 12)" in done.stdout
    records = json.loads((tmp_path / "report" / "report.json").read_text())
    table = [one for one in records if one["table"] == "decoding"]
    assert table


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
        assert float(totals[strategy]["score"]) == float(economy[style]["score"])
        assert float(totals[strategy]["output tokens"]) == pytest.approx(
            float(economy[style]["mean_output_tokens"]), rel=0.03
        )
    assert totals["mai"]["questions"] == "11"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "shapes", "--strategy", "best"], "The strategy 'best' is unknown"),
        (["evaluate", "nothing"], "There is no benchmark 'nothing'"),
        (["evaluate", "shapes", "--out", "~nosuchuser/x"], "The home folder in '~nosuchuser/x'"),
        (["evaluate", "pope", "--data", "~nosuchuser/x"], "There is no file or folder '~nosuchus"),
        (["evaluate", "pope", "--data", "x" * 5_000 + "/x"], "The data set 'xxx"),
        (["evaluate", "own", "--data", "x" * 5_000], "cannot be read: there is no such file"),
        (["evaluate", "shapes", "--pair", "nobody"], "nobody"),
        (["evaluate", "own"], "need a file; name it with --data FILE"),
        (["report", "nowhere"], "There is no folder 'nowhere'"),
        (["report", ".", "--protocol", "mine"], "--protocol takes typed, strict"),
        (["report", ".", "--html", "no/such/page.html"], "There is no folder 'no/such'"),
    ],
)
def test_bad_input_is_said_in_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = mai(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_what_scores_need_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    for more in ((), ("--timed",)):
        done = mai("evaluate", "shapes", "--limit", "1", "--out", str(tmp_path / "out"), *more)
        assert done.exit_code == 2
        assert done.stderr.startswith("This needs rapidfuzz; install it with: ")
    assert list(tmp_path.iterdir()) == []


def test_faults_of_a_question_file_have_a_line_each(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("{\n" * 12)
    done = mai("evaluate", "own", "--data", str(file), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    first, *lines, last = done.stderr.splitlines()
    assert (first, last) == (f"{file}:", "and 2 more.")
    assert [line[: len("line 1")] for line in lines[:9]] == [f"line {n}" for n in range(1, 10)]
    assert len(lines) == 10


def test_help_names_strategies_and_defaults(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    done = mai("evaluate", "--help")
    assert done.exit_code == 0
    for said in (f"{', '.join(STRATEGIES)}; or all.", "(8; timed, 1)", "(evaluations/BENCHMARK-"):
        assert said in " ".join(done.stdout.split())
    (timed,) = [line for line in done.stdout.splitlines() if "--timed" in line and "warm" in line]
    assert "bool" not in timed
