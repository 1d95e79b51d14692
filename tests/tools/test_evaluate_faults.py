"""`mai evaluate` and `mai report`: what a pair cannot do, bad input, and the help."""

import json
import sys

import pytest
from evaluations import mai

from langgraph_mai.configs import load_prompts
from langgraph_mai.graph import STRATEGIES


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


def test_help_names_strategies_and_defaults(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    done = mai("evaluate", "--help")
    assert done.exit_code == 0
    for said in (f"{', '.join(STRATEGIES)}; or all.", "(8; timed, 1)", "(evaluations/BENCHMARK-"):
        assert said in " ".join(done.stdout.split())
    (timed,) = [line for line in done.stdout.splitlines() if "--timed" in line and "warm" in line]
    assert "bool" not in timed
