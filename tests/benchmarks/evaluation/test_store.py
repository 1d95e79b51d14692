"""The store of an evaluation: what it keeps, whom it belongs to, and what it says of errors."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import PROMPTS, models

from langgraph_mai import ConfigError, Pair
from langgraph_mai.benchmarks.evaluation.store import (
    FILE_NAME,
    EvaluationStore,
    QuestionCalls,
    current_question,
)
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion

TESTS = Path(__file__).parents[2]  # the folder of `fakes`

KILLED = """
import os, sys
from pathlib import Path
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
store = EvaluationStore(Path(sys.argv[1]))
for number in range(20):
    store.put(str(number), {"text": str(number)})
os.kill(os.getpid(), 9)
"""

HOLDS = """
import sys
from pathlib import Path
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
store = EvaluationStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def question(name="1", text="Is it red?"):
    return BenchmarkQuestion(
        id=name, question=text, images=(), answers=("yes",), answer_type="yes_no"
    )


def benchmark(*questions, name="shapes"):
    return Benchmark(name=name, questions=questions, prompts="demo", metric="accuracy")


def test_stored_calls_survive_a_kill(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    with EvaluationStore(tmp_path) as store:
        assert (store.count(), store.stored) == (20, 0)
        assert store.get("7") == {"text": "7"}
        assert store.get("20") is None


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "open\n"
    with pytest.raises(ConfigError, match="Another evaluation is running in"):
        EvaluationStore(tmp_path)
    other.communicate()
    EvaluationStore(tmp_path).close()


def test_a_folder_belongs_to_one_benchmark_pair_and_wording(tmp_path):
    small, large = models()
    pair = Pair("fake", small, large, PROMPTS)
    with EvaluationStore(tmp_path) as store:
        store.claim(benchmark(question()), pair, PROMPTS)
        assert list(store.claim(benchmark(), pair, PROMPTS)) == ["small", "large"]
        direct = PROMPTS.direct.model_copy(update={"max_tokens": 99})
        other = PROMPTS.model_copy(update={"direct": direct})
        for bench, prompts, message in [
            (benchmark(name="pope"), PROMPTS, 'benchmark ("shapes", now "pope"); name another'),
            (benchmark(), other, "prompts (direct.max_tokens); name another folder"),
            (benchmark(name="x"), other, 'benchmark ("shapes", now "x"), another prompts ('),
        ]:
            with pytest.raises(ConfigError) as raised:
                store.claim(bench, pair, prompts)
            assert f"This folder holds calls with another {message}" in str(raised.value)


def test_an_id_is_that_of_one_question(tmp_path):
    pair = Pair("fake", *models(), PROMPTS)
    with EvaluationStore(tmp_path) as store:
        store.claim(benchmark(question("1"), question("2", "b")), pair, PROMPTS)
        # Right answers may be corrected, and questions added.
        corrected = replace(question("1"), answers=("no",))
        store.claim(benchmark(corrected, question("3", "c")), pair, PROMPTS)
        with pytest.raises(ConfigError, match=r"'3' is the id of another .*\(1 of 2 are like that"):
            store.claim(benchmark(question("3", "d"), question("4", "e")), pair, PROMPTS)
        store.claim(benchmark(question("4", "f")), pair, PROMPTS)  # the refused one left nothing


def test_results_are_kept_by_strategy_and_question(tmp_path):
    with EvaluationStore(tmp_path) as store:
        for strategy, answer in [("mai", "yes"), ("mai", "no"), ("large_direct", "4")]:
            store.add_result("q", {"strategy": strategy, "answer": answer})
        assert store.strategies() == ["large_direct", "mai"]
        assert store.result("mai", "q")["answer"] == "no"
        assert store.result("mai", "other") is None


async def test_calls_are_kept_by_question_and_failures_as_long_as_the_object_lives():
    calls, made = QuestionCalls(), []

    async def make(value):
        made.append(value)
        return value

    current_question.set("q")
    for _ in range(2):
        assert (await calls.acall("a", lambda: make({"text": "yes"})))[0] == {"text": "yes"}
        assert (await calls.acall("b", lambda: make({"error": "away"})))[0] == {"error": "away"}
    assert made == [{"text": "yes"}, {"error": "away"}]
    calls.add_calls("other", {"c": {"text": "no"}})
    assert calls.calls_of("q") == calls.take_calls("q") == {"a": {"text": "yes"}}
    assert (calls.calls_of("q"), calls.count()) == ({}, 1)


def full(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 4")
    for number in range(100):
        connection.execute("INSERT INTO t VALUES (?)", (f"{number}" * 1000,))


def read_only(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = 1")
    connection.execute("INSERT INTO t VALUES (1)")


def nowhere(_connection: sqlite3.Connection) -> None:
    sqlite3.connect("/no/such/folder/file")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (full, "There is no room left for answers in {folder!r}; free space"),
        (read_only, "The answers in {folder!r} may only be read; make"),
        (nowhere, "{path!r} cannot be opened; make"),
    ],
)
def test_errors_of_the_file_are_one_sentence_from_then_on(problem, message, tmp_path, monkeypatch):
    with closing(sqlite3.connect(tmp_path / "t")) as connection:
        connection.execute("CREATE TABLE t (c)")
        with pytest.raises(sqlite3.Error) as seen:
            problem(connection)

    def failing(*_):
        raise seen.value

    store = EvaluationStore(tmp_path / "store")
    monkeypatch.setattr(QuestionCalls, "put", failing)
    path = tmp_path / "store" / FILE_NAME
    for use in (lambda: store.put("a", {}), lambda: store.get("a"), store.strategies):
        with pytest.raises(ConfigError) as raised:
            use()
        expected = message.format(folder=str(path.parent), path=str(path))
        assert str(raised.value).startswith(expected)
    store.close()


def test_a_file_that_is_something_else_and_a_folder_that_cannot_be_are_named(tmp_path):
    (tmp_path / FILE_NAME).write_text("This is a letter, and no database at all. " * 40)
    with pytest.raises(ConfigError, match="is no store of model calls"):
        EvaluationStore(tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        EvaluationStore(tmp_path / FILE_NAME / "folder")
    with closing(sqlite3.connect(tmp_path / "new.sqlite")) as older:
        older.execute("CREATE TABLE calls (key TEXT, role TEXT, message TEXT)")
    (tmp_path / "new.sqlite").rename(tmp_path / FILE_NAME)
    with pytest.raises(ConfigError, match="no such column: value"):
        EvaluationStore(tmp_path)


SMALL_DISK = """
import asyncio, resource, sys
from functools import partial
from pathlib import Path
from fakes import PROMPTS, models
from langgraph_mai import Pair
from langgraph_mai.benchmarks.evaluation.runner import StrategyGraphs, run_here, run_strategies
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
from langgraph_mai.benchmarks.question import BenchmarkQuestion

small, large = models("direct", delay=0.001)
with EvaluationStore(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    graphs = StrategyGraphs(Pair("fake", small, large, PROMPTS), ["mai"], PROMPTS, store)
    engine = partial(run_here, graphs=graphs, concurrency=4)
    asked = [
        BenchmarkQuestion(
            id=str(n), question=f"Is {n} red?", images=(), answers=("yes",), answer_type="yes_no"
        )
        for n in range(2000)
    ]
    failed = []
    note = lambda pace, result: failed.append(result) if result["error"] else None
    try:
        asyncio.run(run_strategies(asked, ["mai"], store, engine, note))
    except ValueError as error:
        print(type(error).__name__, error)
print(len(small.calls) + len(large.calls), len(failed))
"""


def test_without_room_for_answers_no_more_calls_are_made(tmp_path):
    """A file may grow to 200 kB: room for some of the 4,000 calls."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=TESTS,
    )  # fmt: skip
    sentence, counts = done.stdout.splitlines()
    assert sentence.startswith(f"StoreError '{tmp_path / FILE_NAME}' cannot be read or written (")
    assert sentence.endswith("free space or check the disk, and the same command continues.")
    with EvaluationStore(tmp_path) as store:
        stored = store.count()
    made, failed = map(int, counts.split())
    assert 0 < stored <= made <= stored + 2 * 4  # those that were on their way
    assert failed == 0
