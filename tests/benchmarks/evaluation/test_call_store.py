import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.evaluation.call_store import FILE_NAME, CallStore
from langgraph_mai.benchmarks.evaluation.store_faults import store_error

MESSAGE = {"type": "ai", "content": "yes"}

KILLED = """
import os, sys
from pathlib import Path
from langgraph_mai.benchmarks.evaluation.call_store import CallStore
store = CallStore(Path(sys.argv[1]))
for number in range(20):
    store.add_call(str(number), "small", "direct", {"type": "ai", "content": str(number)}, 0.1)
os.kill(os.getpid(), 9)
"""

HOLDS = """
import sys
from pathlib import Path
from langgraph_mai.benchmarks.evaluation.call_store import CallStore
store = CallStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_what_was_stored_is_there_when_the_process_is_killed(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    with CallStore(tmp_path) as store:
        assert store.count_calls() == {"small direct": 20}
        assert store.call("7") == ({"type": "ai", "content": "7"}, 0.1)
        assert store.call("20") is None


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "open\n"
    with pytest.raises(ConfigError, match="Another evaluation is running in"):
        CallStore(tmp_path)
    other.communicate()
    CallStore(tmp_path).close()


def test_a_folder_belongs_to_one_set_of_settings(tmp_path):
    settings = {"benchmark": "shapes", "small model": {"weights": "1", "dtype": "auto"}}
    with CallStore(tmp_path) as store:
        store.claim(settings)
    with CallStore(tmp_path) as store:
        store.claim(settings)
        for others, said in (
            ({"benchmark": "pope"}, 'benchmark ("shapes", now "pope")'),
            ({"large model": {}}, "large model (none, now some)"),
            ({"small model": {"weights": "2", "dtype": "auto"}}, "small model (weights)"),
            ({"small model": {"weights": "2"}}, "small model (weights, dtype)"),
            ({"small model": None, "benchmark": "x"}, 'benchmark ("shapes", now "x"), another sma'),
        ):
            with pytest.raises(ConfigError) as raised:
                store.claim(settings | others)
            assert f"This folder holds calls with another {said}" in str(raised.value)


def test_of_settings_that_differ_only_the_keys_are_named(tmp_path):
    prompts = {"styles": {"direct": {"instruction": "Answer. " * 50, "max_tokens": 4}}}
    other = {"styles": {"direct": {"instruction": "Say it. " * 50, "max_tokens": 4}}}
    with CallStore(tmp_path) as store:
        store.claim({"prompts": prompts})
        with pytest.raises(ConfigError) as raised:
            store.claim({"prompts": other})
    assert "another prompts (styles.direct.instruction); name" in str(raised.value)


def test_an_id_is_that_of_one_question(tmp_path):
    with CallStore(tmp_path) as store:
        store.claim_questions({"1": "a", "2": "b"})
        store.claim_questions({"2": "b", "3": "c"})
    with CallStore(tmp_path) as store:
        with pytest.raises(ConfigError, match=r"'3' is the id of another .*\(1 of 2 are like that"):
            store.claim_questions({"3": "d", "4": "e"})
        store.claim_questions({"4": "f"})  # the refused one left nothing


def test_failures_are_kept_apart_until_the_call_succeeds(tmp_path):
    with CallStore(tmp_path) as store:
        store.add_failure("a", "small", "direct", "The server is away.")
        store.add_failure("a", "small", "direct", "The server is still away.")
        store.add_failure("b", "large", "reason", "Out of memory.")
        assert store.call("a") is None
        first = {"role": "small", "style": "direct", "error": "The server is still away."}
        second = {"role": "large", "style": "reason", "error": "Out of memory."}
        assert store.failures() == [first | {"tries": 2}, second | {"tries": 1}]
        store.add_call("a", "small", "direct", MESSAGE, 1.0)
        assert store.failures() == [second | {"tries": 1}]
        assert store.count_calls() == {"small direct": 1}


def test_results_are_kept_by_strategy_and_question(tmp_path):
    with CallStore(tmp_path) as store:
        store.add_result("mai", "q", {"answer": "yes"})
        store.add_result("mai", "q", {"answer": "no"})
        store.add_result("large_direct", "q", {"answer": "4"})
        assert store.strategies() == ["large_direct", "mai"]
        assert store.result("mai", "q") == {"answer": "no"}
        assert store.result("mai", "other") is None


def test_a_file_that_is_something_else_is_named(tmp_path):
    (tmp_path / FILE_NAME).write_text("This is a letter, and no database at all. " * 40)
    with pytest.raises(ConfigError, match="is no store of model calls"):
        CallStore(tmp_path)


def full(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 4")
    for number in range(100):
        connection.execute("INSERT INTO t VALUES (?)", (f"{number}" * 1000,))


def read_only(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = 1")
    connection.execute("INSERT INTO t VALUES (1)")


def nowhere(_connection: sqlite3.Connection) -> None:
    sqlite3.connect("/no/such/folder/file")


def a_letter(connection: sqlite3.Connection) -> None:
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    with Path(f"{path}.txt").open("w") as file:
        file.write("This is a letter. " * 100)
    sqlite3.connect(f"{path}.txt").execute("SELECT * FROM t")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (full, "There is no room left for answers in '/some/folder'; free space"),
        (read_only, "The answers in '/some/folder' may only be read; make"),
        (nowhere, "'/some/folder/calls.sqlite' cannot be opened; make"),
        (a_letter, "'/some/folder/calls.sqlite' is no store of model calls (file is not a data"),
    ],
)
def test_faults_of_the_file_are_told_apart(fault, said, tmp_path):
    with closing(sqlite3.connect(tmp_path / "t")) as connection:
        connection.execute("CREATE TABLE t (c)")
        with pytest.raises(sqlite3.Error) as raised:
            fault(connection)
    assert str(store_error(raised.value, Path("/some/folder/calls.sqlite"))).startswith(said)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        CallStore(tmp_path / "file" / "folder")


SMALL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from fakes import PROMPTS, models
from langgraph_mai import create_strategy
from langgraph_mai.benchmarks.evaluation.call_store import CallStore
from langgraph_mai.benchmarks.evaluation.runner import Runner
from langgraph_mai.benchmarks.evaluation.shared_calls import SharedCalls
from langgraph_mai.benchmarks.evaluation.stored_model import StoredModel
from langgraph_mai.benchmarks.question import BenchmarkQuestion

small, large = models("direct", delay=0.001)
with CallStore(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    calls = SharedCalls(store)
    stored = [StoredModel(small, calls, "small"), StoredModel(large, calls, "large")]
    graph = create_strategy("mai", *stored, prompts=PROMPTS)
    seen = []
    runner = Runner({"mai": graph}, store, concurrency=4, on_progress=seen.append)
    asked = [
        BenchmarkQuestion(
            id=str(n), question=f"Is {n} red?", images=(), answers=("yes",), answer_type="yes_no"
        )
        for n in range(2000)
    ]
    try:
        asyncio.run(runner.run(asked))
    except ValueError as error:
        print(type(error).__name__, error)
print(len(small.calls) + len(large.calls), sum(one.result["error"] is not None for one in seen))
"""


def test_where_there_is_no_room_for_answers_no_more_are_asked_for(tmp_path):
    """A file may grow to 200 kB: room for some of the 4,000 calls."""
    here = Path(__file__).parents[2]  # the folder of `fakes`
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=here,
    )  # fmt: skip
    sentence, counts = done.stdout.splitlines()
    assert sentence.startswith(f"StoreError '{tmp_path / FILE_NAME}' cannot be read or written (")
    assert sentence.endswith("free space or check the disk, and the same command goes on.")
    with CallStore(tmp_path) as store:
        stored = sum(store.count_calls().values())
    asked, failed = map(int, counts.split())
    assert 0 < stored <= asked <= stored + 2 * 4  # those that were on their way
    assert failed == 0
