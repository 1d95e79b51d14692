"""Overlap: the small agent begins to reason before the large one's direct answer is in.

A reasoning that has begun belongs to its run, by a name in the state, and lives in this process
alone: where a run is resumed elsewhere, the reasoning is simply asked for again. It ends as soon as
it is not wanted: the answers agree, or the run fails or is cancelled.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig

from ..configs import ConfigError
from ..models.stop_signal import StopSignal
from .chat_models import chat_models
from .model_call import Agent, acall_model, call_model, record
from .request import Reply
from .state import ModelCall, RunState
from .step import ModelStep, Step, Update
from .verification import after_direct_verification

OverlapOption = Literal["reasoning"] | None

Answer = asyncio.Task[ModelCall] | Future[ModelCall]

_MOST_RUNS = 4096


def check_overlap(overlap: Any) -> None:
    """Refuse what is no kind of overlap.

    Raises:
        ConfigError: Neither "reasoning" nor None.
    """
    if overlap not in {None, "reasoning"}:
        raise ConfigError(f'`overlap` must be "reasoning" or None, not {overlap!r}.')


@dataclass(slots=True)
class _Run:
    """What is known of a run: whether the large agent has answered, and the reasoning under way."""

    answered: bool = False
    answer: Answer | None = None
    signal: StopSignal = field(default_factory=StopSignal)


class Overlap:
    """The reasonings that have begun early, of all runs of one graph."""

    def __init__(self, agent: Agent) -> None:
        """Nothing has begun.

        Args:
            agent: Who reasons.
        """
        self._agent = agent
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def small_agent(self, direct: ModelStep) -> ModelStep:
        """The direct call, and behind it the beginning of the reasoning."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            update = direct.invoke(state, config)
            if update["small_direct"]["error"] is None:
                self._begin(state, lambda signal: self._in_a_thread(state, config, signal))
            return update

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            update = await direct.ainvoke(state, config)
            if update["small_direct"]["error"] is None:
                self._begin(state, lambda signal: self._in_a_task(state, config, signal))
            return update

        return _like(direct, run, arun)

    def large_agent(self, direct: ModelStep) -> ModelStep:
        """The direct call; once it is there, no reasoning begins early any more."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            try:
                update = direct.invoke(state, config)
            except BaseException:
                self._abandon(state)
                raise
            self._run(state).answered = True
            return update

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            try:
                update = await direct.ainvoke(state, config)
            except BaseException:  # a cancelled run too
                self._abandon(state)
                raise
            self._run(state).answered = True
            return update

        return _like(direct, run, arun)

    def small_reasoning(self, reasoning: ModelStep) -> ModelStep:
        """The reasoning that has begun; where there is none, a new one."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            begun = self._take(state)
            if begun is None or not isinstance(begun.answer, Future):
                return reasoning.invoke(state, config)
            try:
                return {"small_reason": begun.answer.result()}
            except BaseException:
                begun.signal.stop()
                raise

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            begun = self._take(state)
            if begun is None or not _of_this_loop(begun.answer):
                return await reasoning.ainvoke(state, config)
            # Cancelled here, the task is cancelled with it.
            return {"small_reason": await begun.answer}  # type: ignore[misc]

        return _like(reasoning, run, arun)

    def verification(self, verification: Step) -> Step:
        """The comparison; a reasoning that is not wanted then ends, and its cost is recorded."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            try:
                update = verification.invoke(state, config)
            except BaseException:
                self._abandon(state)
                raise
            if self._wanted(state, update) or (begun := self._take(state)) is None:
                return update
            begun.signal.stop()
            return update | {"small_overlap": self._ended(state, begun)}

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            try:
                update = await verification.ainvoke(state, config)
            except BaseException:
                self._abandon(state)
                raise
            if self._wanted(state, update) or (begun := self._take(state)) is None:
                return update
            begun.signal.stop()
            return update | {"small_overlap": await self._aended(state, begun)}

        return Step(verification.get_name(), run, arun)

    def _begin(self, state: RunState, start: Callable[[StopSignal], Answer]) -> None:
        run = self._run(state)
        if not run.answered and run.answer is None:
            run.answer = start(run.signal)

    def _in_a_thread(
        self, state: RunState, config: RunnableConfig, signal: StopSignal
    ) -> Future[ModelCall]:
        result: Future[ModelCall] = Future()

        def reason() -> None:
            try:
                with signal.covering():
                    result.set_result(call_model(self._agent, "reason", state["task"], config))
            except BaseException as error:  # noqa: BLE001  it is raised in the step that waits
                result.set_exception(error)

        # The context carries the run's callbacks.
        threading.Thread(target=copy_context().run, args=(reason,), daemon=True).start()
        return result

    def _in_a_task(
        self, state: RunState, config: RunnableConfig, signal: StopSignal
    ) -> asyncio.Task[ModelCall]:
        with signal.covering():  # the task takes the context as it is now
            return asyncio.create_task(acall_model(self._agent, "reason", state["task"], config))

    def _ended(self, state: RunState, begun: _Run) -> ModelCall:
        """The stopped call. One whose model does not listen ends by itself, unheard."""
        if self._listens() and isinstance(begun.answer, Future):
            return begun.answer.result()
        return self._unknown(state)

    async def _aended(self, state: RunState, begun: _Run) -> ModelCall:
        if not isinstance(begun.answer, asyncio.Task):
            return self._unknown(state)
        if not self._listens():
            begun.answer.cancel()
        with suppress(asyncio.CancelledError):
            return await begun.answer
        return self._unknown(state)

    def _unknown(self, state: RunState) -> ModelCall:
        """A stopped call of a model that does not say what it wrote."""
        call = record(self._agent.role, "reason", Reply(0.0), state["task"])
        return call | {"finish_reason": "cancelled"}

    def _listens(self) -> bool:
        models = chat_models(self._agent.model)
        return all(getattr(type(model), "listens_to_stop_signal", False) for model in models)

    @staticmethod
    def _wanted(state: RunState, update: Update) -> bool:
        if "direct_verdict" not in update:  # the second comparison: the reasoning was taken
            return False
        behind: Any = {**state, **update}
        return after_direct_verification(behind) == "small_reasoning"

    def _run(self, state: RunState) -> _Run:
        with self._lock:
            run = self._runs.setdefault(state["overlap"], _Run())
            # Runs that were cancelled between two steps are left here.
            while len(self._runs) > _MOST_RUNS:
                _, oldest = self._runs.popitem(last=False)
                oldest.signal.stop()
        return run

    def _take(self, state: RunState) -> _Run | None:
        """Forget the run; its reasoning, if one has begun."""
        with self._lock:
            run = self._runs.pop(state["overlap"], None)
        return run if run is not None and run.answer is not None else None

    def _abandon(self, state: RunState) -> None:
        begun = self._take(state)
        if begun is not None:
            begun.signal.stop()
            if isinstance(begun.answer, asyncio.Task):
                begun.answer.cancel()


def _of_this_loop(answer: Answer | None) -> bool:
    return isinstance(answer, asyncio.Task) and answer.get_loop() is asyncio.get_running_loop()


def _like(
    step: ModelStep,
    run: Callable[[RunState, RunnableConfig], Update],
    arun: Callable[[RunState, RunnableConfig], Awaitable[Update]],
) -> ModelStep:
    return ModelStep(step.get_name(), step.agent, step.style, run, arun, quotes=step.quotes)
