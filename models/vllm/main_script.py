"""The script that vLLM's processes read again, because they start as Python starts processes."""

import multiprocessing
import os
import sys
from pathlib import Path

from ..errors import ModelError

LOG = "LANGGRAPH_MAI_VLLM_LOG"
"""Environment variable with the log of the process whose engine starts."""

NO_GUARD = "the main script has no main guard"
"""Written into that log by a process that was about to start an engine of its own."""


def check_main_script() -> None:
    """Refuse to start an engine where its processes could not start.

    In a process of vLLM's that is reading the script again, this ends it, and says so in the log.

    Raises:
        ModelError: There is no script that they can read.
    """
    # As Python itself asks before it starts a process.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        _end_this_process()
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script and not Path(script).exists():
        raise ModelError(
            "vLLM starts processes that read the main script again, and there is none to read: "
            f"save what {script} is into a file, and run that."
        )


def _end_this_process() -> None:
    if log := os.environ.get(LOG):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"ERROR RuntimeError: {NO_GUARD}\n")
    os._exit(1)
