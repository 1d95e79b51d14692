"""A step of the graph that runs natively both ways, under `invoke` and under `ainvoke`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer
from typing_extensions import override

from ..configs import SparseTransfer
from .model_call import Agent, PromptStyle
from .state import RunState

Update = dict[str, Any]

Selecting = tuple[SparseTransfer, Sequence[Any]]
"""How tokens of a reasoning are selected, and the models whose attention is read for it."""


class PlainStep(Protocol):
    """A step that only computes; under `ainvoke` LangGraph runs it in a thread."""

    def __call__(self, state: RunState) -> Update:
        """Return what the step writes."""
        ...


class Step(Runnable[RunState, Update]):
    """Two functions with one meaning: one blocks its thread, the other never blocks the loop.

    A plain function would do for the graph, but LangGraph runs those in a thread pool under
    `ainvoke`: few fit in, and a cancelled run would leave its model calls running.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[RunState, RunnableConfig], Update],
        arun: Callable[[RunState, RunnableConfig], Awaitable[Update]],
    ) -> None:
        self.name = name
        self._run = run
        self._arun = arun

    @override
    def invoke(self, input: RunState, config: RunnableConfig | None = None, **_: Any) -> Update:
        return self._run(input, config or {})

    @override
    async def ainvoke(
        self, input: RunState, config: RunnableConfig | None = None, **_: Any
    ) -> Update:
        return await self._arun(input, config or {})


class ModelStep(Step):
    """A step that asks a model, with what the answer depends on (for the cache of calls).

    Whoever watches the run is told as it begins.

    Attributes:
        agent: Who is asked.
        style: The prompt style.
        quotes: What of the state goes into the prompt beside the task: texts of other calls.
        selects: How tokens of that text are selected before; None if all of it goes in.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        style: PromptStyle,
        run: Callable[[RunState, RunnableConfig], Update],
        arun: Callable[[RunState, RunnableConfig], Awaitable[Update]],
        *,
        quotes: Callable[[RunState], str] = lambda _state: "",
        selects: Callable[[RunState], Selecting | None] = lambda _state: None,
    ) -> None:
        def run_stage(state: RunState, config: RunnableConfig) -> Update:
            self._announce()
            return run(state, config)

        async def arun_stage(state: RunState, config: RunnableConfig) -> Update:
            self._announce()
            return await arun(state, config)

        super().__init__(name, run_stage, arun_stage)
        self.agent = agent
        self.style = style
        self.quotes = quotes
        self.selects = selects

    def _announce(self) -> None:
        emit(
            {
                "event": "stage",
                "stage": self.get_name(),
                "role": self.agent.role,
                "style": self.style,
            }
        )


def emit(event: Mapping[str, Any]) -> None:
    """Send an event to whoever watches the run with `stream_mode="custom"`."""
    get_stream_writer()(dict(event))
