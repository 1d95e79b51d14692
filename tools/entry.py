"""Where the `mai` process begins and ends.

It imports next to nothing, so that Ctrl-C is clean from the first moment on.
"""

import io
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from types import FrameType

# Exit codes; 0 is done.
RUN_FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process: 0 done, 1 a run failed, 2 bad usage or input."""
    _prepare_streams()
    signal.signal(signal.SIGINT, _stop)
    # Pillow tells of broken parts of an image that it can do without.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    from .cli import app

    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    else:
        code = 0
    _leave(code)


def _prepare_streams() -> None:
    """Make standard output and error take anything.

    A stream that was closed by the caller is missing in Python, and its number would go to the
    next file that is opened. Characters that a stream has no code for are written as escapes,
    because an answer that took minutes must not be lost to them.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  for good
            setattr(sys, name, nowhere)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """End at once.

    A KeyboardInterrupt would be raised wherever the main thread is: inside an import or a library's
    C code, which swallow it, or while it waits for a model that nothing else can stop.
    """
    _terminate_children()
    show_cursor = b"\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else b""
    os.write(2, show_cursor + b"Stopped.\n")
    os._exit(INTERRUPTED)


def _terminate_children() -> None:
    """Ask processes that this one started to end, such as an engine that is still starting."""
    # The signal may have come while they were being imported or started.
    with suppress(AttributeError, OSError, ValueError):
        if multiprocessing := sys.modules.get("multiprocessing"):
            for child in multiprocessing.active_children():
                child.terminate()


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # Whoever read our output has gone, or its disk is full; Python must not flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    _end_engines()
    if threading.active_count() > 1:
        # A model that still loads or answers after a failure is not waited for.
        os._exit(code)
    sys.exit(code)


def _end_engines() -> None:
    """End vLLM's processes and wait for it, so that the next command finds the memory free."""
    room = f"{__package__.rpartition('.')[0]}.models.vllm"
    if engines := sys.modules.get(f"{room}.engine"):
        engines.release_all()
    if arguments := sys.modules.get(f"{room}.engine_args"):
        arguments.discard_log()
