import subprocess
import sys

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.evaluation.call_store import FILE_NAME, CallStore

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
        with pytest.raises(
            ConfigError, match=r'another benchmark \("shapes", now "pope"\); name another folder'
        ):
            store.claim(settings | {"benchmark": "pope"})
        with pytest.raises(ConfigError, match=r"with another large model \(none, now"):
            store.claim(settings | {"large model": {}})
        with pytest.raises(ConfigError, match="with another small model"):
            store.claim({"benchmark": "shapes"})


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


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        CallStore(tmp_path / "file" / "folder")
