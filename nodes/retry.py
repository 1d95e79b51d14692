"""Which failures of a model are worth another try, and whether there will be one.

A step that asks a model never raises: what fails is recorded, and the other model's answer stands.
So that LangGraph can retry, a failure that another try may mend is raised as long as tries are
left, and recorded after the last.
"""

from collections.abc import Iterator

from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy

from ..models.errors import UnreachableError

_OVERLOADED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def worth_retrying(error: BaseException) -> bool:
    """Whether the same call may succeed later: out of memory, no connection, an overloaded server.

    What a server refuses (bad input, no such model, no right) stays refused, and a call that ran
    out of time has had its time. Packages wrap these errors in their own: causes count too.
    """
    if isinstance(error, UnreachableError):  # its model has tried again already
        return False
    return any(_passes(one) for one in _with_causes(error))


MODEL_RETRY = RetryPolicy(
    initial_interval=0.5, backoff_factor=2.0, max_attempts=3, retry_on=worth_retrying
)
"""The policy of every node that asks a model."""


def tried_again(error: Exception) -> bool:
    """Whether the node that runs is to raise this error, because it will be run again."""
    if not worth_retrying(error):
        return False
    try:
        info = get_runtime().execution_info
    except (AttributeError, RuntimeError):  # outside a graph, nobody tries again
        return False
    return info is not None and info.node_attempt < MODEL_RETRY.max_attempts


def _passes(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"TimeoutError", "APITimeoutError", "TimeoutException"}:
        return False
    if isinstance(error, ConnectionError | MemoryError):
        return True
    # torch, openai, anthropic, httpx and requests, without importing any of them.
    if names & {"OutOfMemoryError", "APIConnectionError", "TransportError"}:
        return True
    status = getattr(error, "status_code", None)
    return isinstance(status, int) and status in _OVERLOADED


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__
