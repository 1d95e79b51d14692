"""The calls of one `batch`, gathered so that the model sees them as one padded batch."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables.config import (
    RunnableConfig,
    get_config_list,
    get_executor_for_config,
)
from langchain_core.utils.uuid import uuid7

from .rows import Row

Inputs = list[LanguageModelInput]
Configs = RunnableConfig | list[RunnableConfig] | None
Submit = Callable[[Sequence[Row]], None]


class Gathering:
    """A fixed number of calls that wait for each other.

    Every call either joins with its row or leaves (it failed before, or a cache answered it). The
    last one to do so sets the model to work on all rows that joined; a model that was loaded anew
    meanwhile gets those that were prepared for it.
    """

    def __init__(self, size: int) -> None:
        """Expect `size` calls."""
        self._lock = threading.Lock()
        self._missing = size
        self._rows: defaultdict[Submit, list[Row]] = defaultdict(list)

    def join(self, row: Row, submit: Submit) -> None:
        """Bring a row; `submit` starts a generation with all that came with the same one."""
        with self._lock:
            self._rows[submit].append(row)
        self.leave()

    def leave(self) -> None:
        """Expect one call less."""
        with self._lock:
            self._missing -= 1
            if self._missing:
                return
        for submit, rows in self._rows.items():
            submit(rows)


class Seat:
    """One call's place in a gathering; it is used or given up exactly once, whatever happens.

    A cancelled call leaves from the event loop while a thread may still be about to join.

    Attributes:
        run_id: Tells the call that it is for from calls that its callbacks make.
    """

    def __init__(self, gathering: Gathering, run_id: UUID) -> None:
        """Take a place for the call with this run id."""
        self.run_id = run_id
        self._gathering = gathering
        self._lock = threading.Lock()
        self._used = False

    def join(self, row: Row, submit: Submit) -> None:
        """Bring the call's row; if the place is gone, the row goes alone."""
        if self._use():
            self._gathering.join(row, submit)
        else:
            submit([row])

    def leave(self) -> None:
        """The call is over; without effect if it has joined."""
        if self._use():
            self._gathering.leave()

    def _use(self) -> bool:
        with self._lock:
            first, self._used = not self._used, True
        return first


current_seat: ContextVar[Seat | None] = ContextVar("current_seat", default=None)
"""The place of the call that starts in this context, None for one outside `batch`."""

_offered_seat: ContextVar[Seat | None] = ContextVar("offered_seat", default=None)


@contextmanager
def taking_seat(run_id: UUID | None) -> Iterator[None]:
    """Within this, the call with a run id has its place, if it was offered one.

    Callbacks run in the context of the call that they watch; the calls that they make have run ids
    of their own, and so no place.
    """
    seat = _offered_seat.get()
    token = current_seat.set(seat if seat is not None and seat.run_id == run_id else None)
    try:
        yield
    finally:
        current_seat.reset(token)


def answer_all(
    invoke: Callable[[LanguageModelInput, RunnableConfig], AIMessage],
    inputs: Inputs,
    config: Configs,
    size: int,
    *,
    return_exceptions: bool,
) -> list[AIMessage]:
    """Invoke a model on several inputs, `size` at a time in one batch, each in a thread.

    Args:
        invoke: Answers one input.
        inputs: As for `invoke`.
        config: One for all, or one an input; its `max_concurrency` lowers `size`.
        size: How many inputs go through the model at once.
        return_exceptions: Whether an input that fails yields its exception instead of raising it.
    """

    def answer(seat: Seat, item: LanguageModelInput, config: RunnableConfig) -> Any:
        _offered_seat.set(seat)
        try:
            return invoke(item, config)
        except Exception as error:
            if return_exceptions:
                return error
            raise
        finally:
            seat.leave()

    outputs: list[AIMessage] = []
    for group, configs in _groups(inputs, config, size):
        gathering = Gathering(len(group))
        seats = [_seat(gathering, own) for own in configs]
        with get_executor_for_config({"max_concurrency": len(group)}) as executor:
            outputs += executor.map(answer, seats, group, configs)
    return outputs


async def aanswer_all(
    ainvoke: Callable[[LanguageModelInput, RunnableConfig], Awaitable[AIMessage]],
    inputs: Inputs,
    config: Configs,
    size: int,
    *,
    return_exceptions: bool,
) -> list[AIMessage]:
    """`answer_all` for the event loop."""

    async def answer(seat: Seat, item: LanguageModelInput, config: RunnableConfig) -> AIMessage:
        _offered_seat.set(seat)
        try:
            return await ainvoke(item, config)
        finally:
            seat.leave()

    outputs: list[Any] = []
    for group, configs in _groups(inputs, config, size):
        gathering = Gathering(len(group))
        seats = [_seat(gathering, own) for own in configs]
        # All of them end before the first error is raised, so that none runs on unseen.
        answers = map(answer, seats, group, configs)
        outputs += await asyncio.gather(*answers, return_exceptions=True)
        errors = [output for output in outputs if isinstance(output, BaseException)]
        if errors and not return_exceptions:
            raise errors[0]
    return outputs


def _seat(gathering: Gathering, config: RunnableConfig) -> Seat:
    run_id = config["run_id"] = config.get("run_id") or uuid7()
    return Seat(gathering, run_id)


def _groups(
    inputs: Inputs, config: Configs, size: int
) -> Iterator[tuple[Inputs, list[RunnableConfig]]]:
    if not inputs:
        return
    configs = get_config_list(config, len(inputs))
    size = min(size, configs[0].get("max_concurrency") or size)
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size], configs[start : start + size]
