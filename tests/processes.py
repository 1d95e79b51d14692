"""Commands as processes of their own, ports for them, and what the system says of them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

MAI = [sys.executable, "-c", "from langgraph_mai.tools.entry import main; main()"]
QUICK = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
"""An environment in which vLLM runs tiny models fast."""

LONGEST = 900.0
"""Seconds after which a process counts as hung."""


def free_port(following: int = 0) -> int:
    """A port of 127.0.0.1 that is free together with some that follow it."""
    while True:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            first = held.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            for number in range(1, following + 1):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port + number))
            return port


class MaiServe:
    """`mai serve` as a process; `end` leaves nothing of it."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*MAI, "serve", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | QUICK,
        )
        self._timer = threading.Timer(LONGEST, self.process.kill)
        self._timer.start()

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def wait_until_ready(self) -> None:
        """Until it says so; fails with what it said if it ends before."""
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if "Ready." in line:
                return
        pytest.fail(f"It ended before it was ready: {''.join(lines)}")

    def servers(self) -> set[int]:
        """Sessions of the servers that it started: each server leads one of its own."""
        mai = self.process.pid
        return {
            pid for pid, (parent, session) in running().items() if parent == mai and session == pid
        }

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def outcome(self) -> tuple[int, str, str]:
        """Exit code, output and errors, once it has ended."""
        out, err = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, out, err

    def end(self) -> None:
        self._timer.cancel()
        if self.runs:
            self.process.terminate()
            self.process.communicate(timeout=120)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


class ServedDemo:
    """The pair `demo-vllm` on servers: started when first asked for, and again if they have ended.

    Attributes:
        file: The pair file that uses them.
        port: The first one's; the second has the next.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "served.yaml"
        self.port = 0
        self._mai: MaiServe | None = None

    def running(self) -> MaiServe:
        """What serves it, once it is ready."""
        if self._mai is None or not self._mai.runs:
            self.end()
            self.port = free_port(following=1)
            words = ["--models", "--port", str(self.port), "--write", str(self.file)]
            self._mai = MaiServe("demo-vllm", *words)
            self._mai.wait_until_ready()
        return self._mai

    def end(self) -> None:
        if self._mai:
            self._mai.end()


def running() -> dict[int, tuple[int, int]]:
    """Parent and session of all processes by their number, zombies left out."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if state != "Z":
                found[int(stat.parent.name)] = (int(parent), int(session))
    return found


def assert_gone(sessions: set[int]) -> None:
    """No process of these sessions is left, after some seconds at most."""
    assert sessions
    for _ in range(120):
        left = [pid for pid, (_, session) in running().items() if session in sessions]
        if not left:
            return
        time.sleep(0.5)
    pytest.fail(f"these processes are left: {left}")
