"""The store of an evaluation: what it keeps, whom it belongs to, and what it says of errors."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import PROMPTS, models
from questions import benchmark, question

from langgraph_mai import ConfigError, Pair
from langgraph_mai.benchmarks.evaluation.store import (
    FILE_NAME,
    EvaluationStore,
    QuestionCalls,
    current_question,
)

TESTS = Path(__file__).parents[2]  # the folder of `fakes`

KILLED = """
import os, sys
from pathlib import Path
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
store = EvaluationStore(Path(sys.argv[1]))
for number in range(20):
    store.put(str(number), {"text": str(number)})
print("stored", flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


def test_a_folder_belongs_to_one_process_and_its_calls_survive_a_kill(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "stored\n"
    with pytest.raises(ConfigError, match="Another 'mai evaluate' is running in"):
        EvaluationStore(tmp_path)
    other.communicate()
    assert other.returncode == -9
    with EvaluationStore(tmp_path) as store:
        assert (store.count(), store.stored) == (20, 0)
        assert (store.get("7"), store.get("20")) == ({"text": "7"}, None)


def stored_result(strategy, answer):
    keys = ("id", "text", "route", "fallback", "error")
    return dict.fromkeys(keys) | {"id": "q", "strategy": strategy, "answer": answer, "calls": []}


def test_results_are_kept_by_strategy_and_question_and_damaged_ones_are_not_there(tmp_path):
    with EvaluationStore(tmp_path) as store:
        for strategy, answer in [("mai", "yes"), ("mai", "no"), ("large_direct", "4")]:
            store.add_result("key", stored_result(strategy, answer))
        assert store.strategies() == ["large_direct", "mai"]
        assert store.result("mai", "key")["answer"] == "no"
        assert store.result("mai", "other") is None
    for damaged in ("", "{", "5", '{"id": 5}', "[]"):
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
            database.execute("UPDATE results SET result = ?", [damaged])
        with EvaluationStore(tmp_path) as store:
            assert store.result("mai", "key") is None


def test_a_folder_belongs_to_one_benchmark_pair_and_wording_and_an_id_to_one_question(tmp_path):
    pair = Pair("fake", *models(), PROMPTS)
    direct, own = PROMPTS.direct.model_copy(update={"max_tokens": 99}), PROMPTS.direct.max_tokens
    other = PROMPTS.model_copy(update={"direct": direct})
    both = benchmark(question("1"), question("2", "b"), name="shapes")
    with EvaluationStore(tmp_path) as store:
        assert list(store.claim(both, pair, PROMPTS)) == ["small", "large"]
        # Right answers may be corrected, and questions added.
        corrected = replace(question("1"), answers=("no",))
        store.claim(benchmark(corrected, question("3", "c"), name="shapes"), pair, PROMPTS)
        for asked, prompts, message in [
            (benchmark(name="pope"), PROMPTS, 'another benchmark ("shapes"); name another'),
            (both, other, f"another prompts.direct.max_tokens ({own}); name another"),
            (benchmark(name="x"), other, 'benchmark ("shapes"), another prompts.direct'),
            (
                benchmark(question("3", "d"), question("4", "e"), name="shapes"),
                PROMPTS,
                "'3' is the id of another question, with other text, choices or images (1 of 2 are",
            ),
        ]:
            with pytest.raises(ConfigError) as raised:
                store.claim(asked, pair, prompts)
            assert message in str(raised.value)
        # The refused one left nothing.
        store.claim(benchmark(question("4", "f"), name="shapes"), pair, PROMPTS)


async def test_calls_are_kept_by_question_and_failures_as_long_as_the_object_lives():
    calls, made = QuestionCalls(), []
    small, _ = models()

    async def make(value):
        made.append(value)
        return value

    current_question.set("q")
    yes, error = ({"text": "yes"}, {"error": "away"})
    a, b = (calls.key_of(small, content) for content in ("a", "b"))
    for _ in range(2):
        assert (await calls.acall(a, lambda: make(yes)))[0] == yes
        assert (await calls.acall(b, lambda: make(error)))[0] == error
    assert made == [yes, error]
    current_question.set("other")
    other = calls.key_of(small, "a")
    calls.add_calls({other: {"text": "no"}})
    assert (calls.calls_of("q"), calls.calls_of("other")) == ({a: yes}, {other: {"text": "no"}})
    assert calls.take_calls("q") == {a: yes, b: error}
    assert (calls.calls_of("q"), calls.count()) == ({}, 1)


def test_an_error_of_the_file_is_one_sentence_from_then_on(tmp_path):
    store = EvaluationStore(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("DROP TABLE results")
    for use in (store.strategies, lambda: store.put("a", {}), lambda: store.get("a")):
        with pytest.raises(
            ConfigError, match=r"cannot be stored in .*no such table: results.*: free"
        ):
            use()
    store.close()


def test_a_file_that_is_something_else_and_a_folder_that_cannot_be_are_named(tmp_path):
    (tmp_path / FILE_NAME).write_text("This is a letter, and no database at all. " * 40)
    with pytest.raises(ConfigError, match="file is not a database"):
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
from questions import question

small, large = models("direct", delay=0.001)
with EvaluationStore(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    graphs = StrategyGraphs(Pair("fake", small, large, PROMPTS), ["mai"], PROMPTS, store)
    engine = partial(run_here, graphs=graphs, concurrency=4)
    asked = [question(n, f"Is {n} red?") for n in range(2000)]
    failed = []
    note = lambda pace, result: failed.append(result) if result["error"] else None
    try:
        asyncio.run(run_strategies(asked, ["mai"], store, engine, note))
    except ValueError as error:
        print(type(error).__name__, error)
print(len(small.calls) + len(large.calls), len(failed))
"""


def test_on_a_full_disk_no_more_calls_are_made(tmp_path):
    """A file may grow to 200 kB: enough for some of the 4,000 calls."""
    words = [sys.executable, "-c", SMALL_DISK, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=TESTS)
    sentence, counts = done.stdout.splitlines()
    assert sentence.startswith("StoreError The answers cannot be stored in ")
    assert sentence.endswith("the same command continues from there.")
    with EvaluationStore(tmp_path) as store:
        stored = store.count()
    made, failed = map(int, counts.split())
    assert 0 < stored <= made <= stored + 2 * 4  # those that were on their way
    assert failed == 0
