"""vLLM's processes end with the process that started them, however and whenever that ends."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from processes import MAI

from langgraph_mai import ChatVLLM

READY = """
import os, signal, sys, time
from langgraph_mai import load_pair

if __name__ == "__main__":
    # A test run in the background hands down that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = load_pair("demo-vllm").small.load()
    print("ready", os.environ.get("PYTHONPATH"), os.environ.get("LANGGRAPH_MAI_PARENT"), flush=True)
    sys.stdin.readline()
    {end}
"""

ENDS = {
    "exit": "sys.exit(0)",
    "killed": "os.kill(os.getpid(), 9)",
    "interrupted": "os.kill(os.getpid(), signal.SIGINT); time.sleep(600)",
}


def assert_gone(processes):
    _, alive = psutil.wait_procs(set(processes), timeout=60)
    assert not alive


@pytest.mark.parametrize(
    ("sent", "seconds"), [(signal.SIGKILL, 0.0), (signal.SIGKILL, 6.0), (signal.SIGINT, 3.0)]
)
def test_no_process_is_left_of_a_start_that_was_ended(sent, seconds):
    with subprocess.Popen(
        [*MAI, "ask", "How many?", "--no-image", "--pair", "demo-vllm"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not (below := psutil.Process(process.pid).children(recursive=True)):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(seconds)
        below += psutil.Process(process.pid).children(recursive=True)
        process.send_signal(sent)
        process.wait(60)
    assert_gone(below)


@pytest.mark.parametrize("end", ENDS)
def test_no_process_is_left(tmp_path, end):
    script = tmp_path / "script.py"
    script.write_text(READY.format(end=ENDS[end]))
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        # What vLLM's processes are told does not stay for others that this one may start.
        given = os.environ.get("PYTHONPATH")
        assert process.stdout.readline() == f"ready {given} None\n"
        below = psutil.Process(process.pid).children(recursive=True)
        process.communicate("continue\n", timeout=120)
    assert len(below) >= 2
    assert_gone(below)


@pytest.mark.shares_vllm
def test_an_engine_that_died_is_started_again(vllm_pair):
    settings = vllm_pair.small.model_dump(include={"model", "dtype", "engine"})
    model = ChatVLLM(**settings, memory=0.05)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert model.invoke("How many?").content is not None
    for child in psutil.Process().children(recursive=True):
        if child.pid not in before:
            os.kill(child.pid, signal.SIGKILL)
    failed = 0
    for _ in range(100):
        try:
            model.invoke("How many?")
        except RuntimeError:
            failed += 1
            time.sleep(0.1)
        else:
            break
    assert failed < 100
    model.unload()


@pytest.mark.parametrize("given", ["file", "standard input"])
def test_a_script_that_cannot_be_imported_again_is_told_what_to_do(tmp_path, given):
    text = "from langgraph_mai import load_pair\nload_pair('demo-vllm').small.load()\n"
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, str(script) if given == "file" else "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1
    sentence = 'under `if __name__ == "__main__":`'
    if given == "standard input":
        sentence = "save what <stdin> is into a file"
    assert sentence in done.stderr.partition("ModelError: ")[2]
