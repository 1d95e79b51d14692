"""The calls of one `batch`, gathered so that the model sees them as one padded batch."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables.config import (
    RunnableConfig,
    get_config_list,
    get_executor_for_config,
)

from .rows import Row

Inputs = list[LanguageModelInput]
Configs = RunnableConfig | list[RunnableConfig] | None


class Gathering:
    """A fixed number of calls that wait for each other.

    Every call either joins with its row or leaves (it failed before, or a cache answered it). The
    last one to do so sets the model to work on all rows that joined.
    """

    def __init__(self, size: int) -> None:
        """Expect `size` calls."""
        self._lock = threading.Lock()
        self._missing = size
        self._rows: list[Row] = []
        self._submit: Callable[[Sequence[Row]], None] | None = None

    def join(self, row: Row, submit: Callable[[Sequence[Row]], None]) -> None:
        """Bring a row; `submit` starts a generation with all of them."""
        with self._lock:
            self._rows.append(row)
            self._submit = submit
        self.leave()

    def leave(self) -> None:
        """Expect one call less."""
        with self._lock:
            self._missing -= 1
            if self._missing or self._submit is None:
                return
        self._submit(self._rows)


class Seat:
    """One call's place in a gathering; it is used or given up exactly once, whatever happens.

    A cancelled call leaves from the event loop while a thread may still be about to join.
    """

    def __init__(self, gathering: Gathering) -> None:
        """Take a place."""
        self._gathering = gathering
        self._lock = threading.Lock()
        self._used = False

    def join(self, row: Row, submit: Callable[[Sequence[Row]], None]) -> None:
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
"""The place of the call that runs in this context, None outside `batch`."""


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
        current_seat.set(seat)
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
        seats = [Seat(gathering) for _ in group]
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
        current_seat.set(seat)
        try:
            return await ainvoke(item, config)
        finally:
            seat.leave()

    outputs: list[Any] = []
    for group, configs in _groups(inputs, config, size):
        gathering = Gathering(len(group))
        seats = [Seat(gathering) for _ in group]
        # All of them end before the first error is raised, so that none runs on unseen.
        answers = map(answer, seats, group, configs)
        outputs += await asyncio.gather(*answers, return_exceptions=True)
        errors = [output for output in outputs if isinstance(output, BaseException)]
        if errors and not return_exceptions:
            raise errors[0]
    return outputs


def _groups(
    inputs: Inputs, config: Configs, size: int
) -> Iterator[tuple[Inputs, list[RunnableConfig]]]:
    if not inputs:
        return
    configs = get_config_list(config, len(inputs))
    size = min(size, configs[0].get("max_concurrency") or size)
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size], configs[start : start + size]
