"""Keeps `datasets` quiet while it loads: what goes wrong is said in one sentence by its callers."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOGGERS = ("datasets", "huggingface_hub")


@contextmanager
def quiet_loading(datasets: Any, *, bars: bool) -> Iterator[None]:
    """No warnings of `datasets` and the hub; progress bars on terminals alone.

    Args:
        datasets: The module.
        bars: Whether progress is to be seen on a terminal.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    had_bars = not datasets.are_progress_bars_disabled()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    if not (bars and sys.stderr.isatty()):
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if had_bars:
            datasets.enable_progress_bars()
