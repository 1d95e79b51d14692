"""vLLM's processes end when the process that started them is gone.

vLLM calls `end_with_parent` in each of its processes, as a plugin (the entry points are in
pyproject.toml). It does something only below a process of this package. Without it, a process that
is killed leaves its engines behind, with their memory.

It is two plugins. vLLM loads general ones only after an engine has heard from the process that
started it, for which it waits for minutes; it asks platform ones as it is imported.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping

PARENT = "LANGGRAPH_MAI_PARENT"
"""Environment variable with the number of the process that vLLM's processes must not outlive."""

PLUGIN = "langgraph_mai"
"""Name of both plugins, as VLLM_PLUGINS lists it."""

_ALLOWED = "VLLM_PLUGINS"
_WATCH = "end-with-parent"
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_END = 10.0


def watched(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that make vLLM's processes watch this one.

    Args:
        environ: The environment that they are added to. Where it lists the plugins that vLLM may
            load, this one joins the list.
    """
    found = {PARENT: str(os.getpid())}
    if _ALLOWED in environ:
        names = [name for name in environ[_ALLOWED].split(",") if name]
        found[_ALLOWED] = ",".join([*names, *({PLUGIN} - set(names))])
    return found


def end_with_parent() -> None:
    """Watch the parent of this process, in a thread, if `PARENT` is set and is another process.

    Nothing is returned, which says as a platform plugin: this is no platform to run on.
    """
    first = os.environ.get(PARENT, "")
    watches = any(thread.name == _WATCH for thread in threading.enumerate())
    if watches or not first.isdigit() or int(first) == os.getpid():
        return
    # A parent that has ended already is no longer what the system calls the parent.
    started_by = multiprocessing.parent_process()
    parent = os.getppid() if started_by is None else started_by.pid
    watch = threading.Thread(target=_watch, args=(parent, int(first)), name=_WATCH, daemon=True)
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
