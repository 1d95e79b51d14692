"""A step of the graph that runs natively both ways, under `invoke` and under `ainvoke`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer
from typing_extensions import override

from .model_call import Agent, PromptStyle
from .state import CallKey, MAIState

Update = dict[str, Any]


class PlainStep(Protocol):
    """A step that only computes; under `ainvoke` LangGraph runs it in a thread."""

    def __call__(self, state: MAIState) -> Update:
        """Return what the step writes."""
        ...


class Step(Runnable[MAIState, Update]):
    """Two functions with one meaning: one blocks its thread, the other never blocks the loop.

    A plain function would do for the graph, but LangGraph runs those in a thread pool under
    `ainvoke`: few fit in, and a cancelled run would leave its model calls running.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[MAIState, RunnableConfig], Update],
        arun: Callable[[MAIState, RunnableConfig], Awaitable[Update]],
    ) -> None:
        self.name = name
        self._run = run
        self._arun = arun

    @override
    def invoke(self, input: MAIState, config: RunnableConfig | None = None, **_: Any) -> Update:
        return self._run(input, config or {})

    @override
    async def ainvoke(
        self, input: MAIState, config: RunnableConfig | None = None, **_: Any
    ) -> Update:
        return await self._arun(input, config or {})


class ModelStep(Step):
    """A step that asks a model, with what the answer depends on (for the cache of calls).

    Attributes:
        agent: Who is asked.
        style: The prompt style.
        reads: Keys of the calls whose text goes into the prompt.
        settings: What else decides about the prompt.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        style: PromptStyle,
        run: Callable[[MAIState, RunnableConfig], Update],
        arun: Callable[[MAIState, RunnableConfig], Awaitable[Update]],
        *,
        reads: tuple[CallKey, ...] = (),
        settings: str = "",
    ) -> None:
        super().__init__(name, run, arun)
        self.agent = agent
        self.style = style
        self.reads = reads
        self.settings = settings


def emit(event: Mapping[str, Any]) -> None:
    """Send an event to whoever watches the run with `stream_mode="custom"`."""
    get_stream_writer()(dict(event))
