"""How many CPU threads a model computes with, alone and beside another one."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

_changing = threading.Lock()

SINGLE_THREAD_PARAMETERS = 50_000_000
"""Models with fewer parameters compute on one CPU thread: more would mostly wait for each other."""


class ThreadShares:
    """Divides torch's CPU threads among the models that compute at this moment.

    Two models that each use every core wait for each other's threads after every operation; with
    half of them each, both go on.
    """

    def __init__(self) -> None:
        """Nobody computes."""
        self._lock = threading.Lock()
        self._computing = 0

    @contextmanager
    def computing(self, total: int | None) -> Iterator[None]:
        """Held while a model computes in the calling thread.

        Args:
            total: The threads that it uses alone; None if it takes no part in this.
        """
        if total is None:
            yield
            return
        with self._lock:
            self._computing += 1
        try:
            self.adjust(total)
            yield
        finally:
            with self._lock:
                self._computing -= 1

    def adjust(self, total: int | None) -> None:
        """Give the calling thread its share; others may have begun or ended since the last time."""
        if total is not None:
            import torch

            share = max(1, total // max(1, self._computing))
            if torch.get_num_threads() != share:
                limit_threads(share)


def fixed_threads(model: Any, asked: int | None) -> int | None:
    """The number of CPU threads that a model always has; None if it takes its share of torch's.

    Args:
        model: The transformers model.
        asked: What the user asked for, if anything.
    """
    if asked is not None or model.device.type != "cpu":
        return asked
    return 1 if model.num_parameters() < SINGLE_THREAD_PARAMETERS else None


def one_thread(task: str, count: int | None) -> ThreadPoolExecutor:
    """An executor of one thread, which computes with `count` CPU threads (None: torch's number)."""
    return ThreadPoolExecutor(
        max_workers=1,
        thread_name_prefix=f"langgraph-mai-{task}",
        initializer=limit_threads,
        initargs=(count,),
    )


def limit_threads(count: int | None) -> None:
    """Set the CPU threads of the calling thread, and of no other.

    `torch.set_num_threads` sets the calling thread and what later threads start with; the second
    half is undone from a thread that ends at once.
    """
    if count is None:
        return
    import torch

    with _changing:
        torch.get_num_threads()  # a thread's first call takes the default over what was set
        before = _read_default()
        torch.set_num_threads(count)
        restore = threading.Thread(target=torch.set_num_threads, args=(before,))
        restore.start()
        restore.join()


def _read_default() -> int:
    """What threads start with."""
    import torch

    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    reader.start()
    reader.join()
    return found[0]
