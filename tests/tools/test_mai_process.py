"""The command as a process of its own: what is on which stream, signals, pipes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MAI, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_json_alone_is_on_stdout():
    process = start("ask", "How many fingers has a hand?", "--json")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert set(json.loads(out)) >= {"answer", "route", "fallback", "calls"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("seconds", [0.3, 0.8, 1.6, 2.4])
def test_ctrl_c_ends_with_one_line(seconds):
    process = start("ask", "How many fingers has a hand?")
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it had finished before the signal came")
    assert (process.returncode, out, err) == (130, "", "Stopped.\n")


def test_a_closed_pipe_is_no_traceback():
    process = start("pairs", "--json")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert err == ""
