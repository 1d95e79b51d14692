"""Where the `mai` process begins and ends.

It imports next to nothing, so that Ctrl-C is clean from the first moment on.
"""

import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process: 0 done, 1 a run failed, 2 bad usage or input."""
    signal.signal(signal.SIGINT, _stop)
    from .cli import app

    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    else:
        code = 0
    _leave(code)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """End at once.

    A KeyboardInterrupt would be raised wherever the main thread is: inside an import or a library's
    C code, which swallow it, or while it waits for a model that nothing else can stop.
    """
    show_cursor = b"\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else b""
    os.write(2, show_cursor + b"Stopped.\n")
    os._exit(INTERRUPTED)


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not flush into the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    if threading.active_count() > 1:
        # A model that still loads or answers after a failure is not waited for.
        os._exit(code)
    sys.exit(code)
