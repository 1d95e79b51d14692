"""Overlap: the small agent begins to reason before the large one's direct answer is in.

A reasoning that has begun belongs to its run, by a name in the state, and lives in this process
and, under `ainvoke`, in the event loop where it began: where a run is resumed elsewhere, it is
ended and asked for again. It also ends as soon as it is not wanted: the answers agree, or the run
fails or is cancelled.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from ..configs import ConfigError
from ..models.stop_signal import StopSignal
from .chat_models import unbound
from .model_call import Agent, acall_model, call_model, record
from .request import Reply, failed
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
    """What is known of a run: whether the large agent is asked, and the reasoning under way.

    Attributes:
        asking: Whether the large agent's direct call is under way.
        start: Starts the reasoning; there once the small agent has answered.
        answer: Resolves to the reasoning that has begun.
        signal: Ends it early, if its model listens.
    """

    asking: bool = False
    start: Callable[[StopSignal], Answer] | None = None
    answer: Answer | None = None
    signal: StopSignal = field(default_factory=StopSignal)

    def begin(self) -> None:
        """Start the reasoning if its time has come."""
        if self.asking and self.start is not None and self.answer is None:
            self.answer = self.start(self.signal)

    def end(self) -> None:
        """Have the reasoning end, unheard; from any thread."""
        self.signal.stop()
        if isinstance(self.answer, asyncio.Task):
            with suppress(RuntimeError):  # its loop is closed, so it does not run
                self.answer.get_loop().call_soon_threadsafe(self.answer.cancel)


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

    def name_run(self) -> str:
        """Name a run that begins; only in named runs can a reasoning begin early."""
        name = str(uuid4())
        with self._lock:
            self._runs[name] = _Run()
            # Runs that were cancelled between two steps are left here.
            outdated = len(self._runs) - _MOST_RUNS
            oldest = [self._runs.popitem(last=False)[1] for _ in range(outdated)]
        for run in oldest:
            run.end()
        return name

    def small_agent(self, direct: ModelStep) -> ModelStep:
        """The direct call; behind it, the reasoning begins while the large agent is asked."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            with self._abandoned_if_cancelled(state):
                update = direct.invoke(state, config)
            if update["small_direct"]["error"] is None:
                context = copy_context()  # it carries the run's callbacks
                self._ready(state, lambda signal: self._in_a_thread(state, config, signal, context))
            return update

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            with self._abandoned_if_cancelled(state):
                update = await direct.ainvoke(state, config)
            if update["small_direct"]["error"] is None:
                context = copy_context()
                self._ready(state, lambda signal: self._in_a_task(state, config, signal, context))
            return update

        return _like(direct, run, arun)

    def large_agent(self, direct: ModelStep) -> ModelStep:
        """The direct call; before and after it, no reasoning begins early."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            with self._abandoned_if_failed(state), self._asking(state):
                return direct.invoke(state, config)

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            with self._abandoned_if_failed(state), self._asking(state):
                return await direct.ainvoke(state, config)

        return _like(direct, run, arun)

    def small_reasoning(self, reasoning: ModelStep) -> ModelStep:
        """The reasoning that has begun; where there is none that can be awaited, a new one."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            begun = self._take(state)
            answer = None if begun is None else begun.answer
            if begun is None or not isinstance(answer, Future):
                _end(begun)
                return reasoning.invoke(state, config)
            try:
                return {"small_reason": answer.result()}
            except BaseException:
                begun.end()
                raise

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            begun = self._take(state)
            answer = None if begun is None else begun.answer
            if not _is_of_this_loop(answer):
                _end(begun)
                return await reasoning.ainvoke(state, config)
            # Cancelled here, the task is cancelled with it.
            return {"small_reason": await answer}

        return _like(reasoning, run, arun)

    def verification(self, verification: Step) -> Step:
        """The comparison; a reasoning that is not wanted then ends, and its cost is recorded."""

        def run(state: RunState, config: RunnableConfig) -> Update:
            with self._abandoned_if_failed(state):
                update = verification.invoke(state, config)
            if self._wanted(state, update) or (begun := self._take(state)) is None:
                return update
            return update | {"small_overlap": self._ended(state, begun)}

        async def arun(state: RunState, config: RunnableConfig) -> Update:
            with self._abandoned_if_failed(state):
                update = await verification.ainvoke(state, config)
            if self._wanted(state, update) or (begun := self._take(state)) is None:
                return update
            return update | {"small_overlap": await self._aended(state, begun)}

        return Step(verification.get_name(), run, arun)

    def _in_a_thread(
        self, state: RunState, config: RunnableConfig, signal: StopSignal, context: Context
    ) -> Future[ModelCall]:
        result: Future[ModelCall] = Future()

        def reason() -> None:
            try:
                with signal.covering():
                    result.set_result(call_model(self._agent, "reason", state["task"], config))
            except BaseException as error:  # noqa: BLE001  it is raised in the step that waits
                result.set_exception(error)

        threading.Thread(target=context.run, args=(reason,), daemon=True).start()
        return result

    def _in_a_task(
        self, state: RunState, config: RunnableConfig, signal: StopSignal, context: Context
    ) -> asyncio.Task[ModelCall]:
        async def reason() -> ModelCall:
            with signal.covering():
                return await acall_model(self._agent, "reason", state["task"], config)

        task = asyncio.get_running_loop().create_task(reason(), context=context)
        # asyncio would log the error of one that nobody awaits any more.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def _ended(self, state: RunState, begun: _Run) -> ModelCall:
        """The stopped call. One whose model does not listen ends by itself, unheard."""
        if isinstance(begun.answer, Future) and self._listens():
            begun.signal.stop()
            wait([begun.answer])
        else:
            begun.end()
        return self._outcome(state, begun)

    async def _aended(self, state: RunState, begun: _Run) -> ModelCall:
        answer = begun.answer
        if not _is_of_this_loop(answer):
            return await asyncio.to_thread(self._ended, state, begun)
        begun.signal.stop()
        if not self._listens():
            answer.cancel()
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError:
            answer.cancel()
            raise
        return self._outcome(state, begun)

    def _outcome(self, state: RunState, begun: _Run) -> ModelCall:
        """The record of a call that was not wanted; its failure is no failure of the run."""
        answer, role, task = begun.answer, self._agent.role, state["task"]
        if answer is None or not answer.done() or answer.cancelled():
            # Its model does not say what it wrote.
            call = record(role, "reason", Reply(0.0), task)
            return call | {"finish_reason": "cancelled"}
        error = answer.exception()
        if error is not None:
            return record(role, "reason", failed(role, "reason", error), task)
        return answer.result()

    def _listens(self) -> bool:
        """Whether a stopped call ends at once; retries and fallbacks would call again."""
        return getattr(type(unbound(self._agent.model)), "listens_to_stop_signal", False)

    @staticmethod
    def _wanted(state: RunState, update: Update) -> bool:
        if "direct_verdict" not in update:  # the second comparison: the reasoning was taken
            return False
        behind: Any = {**state, **update}
        return after_direct_verification(behind) == "small_reasoning"

    def _ready(self, state: RunState, start: Callable[[StopSignal], Answer]) -> None:
        """The reasoning may begin; without effect once the run has ended."""
        with self._lock:
            if (run := self._runs.get(state.get("overlap", ""))) is not None:
                run.start = start
                run.begin()

    @contextmanager
    def _asking(self, state: RunState) -> Iterator[None]:
        """While the large agent is asked, the reasoning begins as soon as it may."""
        with self._lock:
            if (run := self._runs.get(state.get("overlap", ""))) is not None:
                run.asking = True
                run.begin()
        try:
            yield
        finally:
            if run is not None:
                run.asking = False

    def _take(self, state: RunState) -> _Run | None:
        """Forget the run; returns it if its reasoning has begun."""
        with self._lock:
            run = self._runs.pop(state.get("overlap", ""), None)
        return run if run is not None and run.answer is not None else None

    @contextmanager
    def _abandoned_if_failed(self, state: RunState) -> Iterator[None]:
        """Nothing begins in a run that ends with an error, and what has begun ends."""
        try:
            yield
        except BaseException:
            _end(self._take(state))
            raise

    @contextmanager
    def _abandoned_if_cancelled(self, state: RunState) -> Iterator[None]:
        """The same, but errors leave the run as it is: the step is tried again."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            _end(self._take(state))
            raise


def _end(run: _Run | None) -> None:
    if run is not None:
        run.end()


def _is_of_this_loop(answer: Answer | None) -> TypeGuard[asyncio.Task[ModelCall]]:
    return isinstance(answer, asyncio.Task) and answer.get_loop() is asyncio.get_running_loop()


def _like(
    step: ModelStep,
    run: Callable[[RunState, RunnableConfig], Update],
    arun: Callable[[RunState, RunnableConfig], Awaitable[Update]],
) -> ModelStep:
    return ModelStep(step.get_name(), step.agent, step.style, run, arun, quotes=step.quotes)
