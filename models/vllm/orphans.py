"""vLLM's processes end when the process that started them is gone.

vLLM calls `end_with_parent` in each of its processes, as a plugin (the entry point is in
pyproject.toml). It does something only below a process of this package. Without it, a process that
is killed leaves its engines behind, with their memory.
"""

import os
import signal
import threading

PARENT = "LANGGRAPH_MAI_PARENT"
"""Environment variable with the number of the process that vLLM's processes must not outlive."""

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_END = 10.0


def end_with_parent() -> None:
    """Watch the parent of this process, in a thread, if `PARENT` is set and is another process."""
    first = os.environ.get(PARENT, "")
    if first.isdigit() and int(first) != os.getpid():
        watch = threading.Thread(
            target=_watch, args=(os.getppid(), int(first)), name="end-with-parent", daemon=True
        )
        watch.start()


def _watch(parent: int, first: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent and _runs(first):
        pause.wait(_SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGTERM)
    pause.wait(_SECONDS_TO_END)
    os.kill(os.getpid(), signal.SIGKILL)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
