"""The store of an evaluation for its replicas, which are other processes.

Ray's actors cannot ask the process that started them. So an actor between them keeps requests
until that process takes them, and hands its replies on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal
from uuid import uuid4

from .shared_calls import SharedCalls

What = Literal["call", "add_call", "add_failure", "give_up"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a replica asks of the store.

    Attributes:
        replica: Names the replica; one that Ray started anew keeps its name.
        start: Names the start of the replica.
        what: A method of `KeepsCalls`.
        given: Its arguments.
    """

    replica: str
    start: str
    what: What
    given: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the method returned, or the error that it raised, as text."""

    value: Any = None
    error: str | None = None


class Mailbox:
    """Requests on their way to the process with the store, and its replies; a Ray actor."""

    def __init__(self) -> None:
        self._numbers = count()
        self._requests: list[tuple[int, Request]] = []
        self._arrived = asyncio.Event()
        self._replies: dict[int, asyncio.Future[Reply]] = {}

    async def ask(self, request: Request) -> Reply:
        """Send a request, and wait for its reply."""
        number = next(self._numbers)
        self._replies[number] = asyncio.get_running_loop().create_future()
        self._requests.append((number, request))
        self._arrived.set()
        try:
            return await self._replies[number]
        finally:
            del self._replies[number]

    async def take(self) -> list[tuple[int, Request]]:
        """The requests that nobody took yet, with their numbers; waits until there are some."""
        await self._arrived.wait()
        self._arrived.clear()
        taken, self._requests = self._requests, []
        return taken

    async def reply(self, number: int, reply: Reply) -> None:
        """Answer a request; one that waits no longer needs none."""
        waiting = self._replies.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)


class RemoteCalls:
    """The calls as a replica sees them; a `KeepsCalls`."""

    def __init__(self, ask: Callable[[Request], Awaitable[Reply]], replica: str) -> None:
        """Set up.

        Args:
            ask: `Mailbox.ask`, or what reaches it.
            replica: Names the replica.
        """
        self._ask = ask
        self._replica = replica
        self._start = uuid4().hex

    async def call(self, key: str) -> tuple[dict[str, Any], float] | None:
        """A stored call; None if this replica is to make it."""
        found: tuple[dict[str, Any], float] | None = await self._send("call", key)
        return found

    async def add_call(
        self, key: str, role: str, style: str, message: Mapping[str, Any], seconds: float
    ) -> None:
        """Store a call that this replica made."""
        await self._send("add_call", key, role, style, message, seconds)

    async def add_failure(self, key: str, role: str, style: str, error: str) -> None:
        """Note a call that failed here."""
        await self._send("add_failure", key, role, style, error)

    async def give_up(self, key: str) -> None:
        """Leave a call to other replicas."""
        await self._send("give_up", key)

    async def _send(self, what: What, *given: Any) -> Any:
        reply = await self._ask(Request(self._replica, self._start, what, given))
        if reply.error is not None:
            raise RuntimeError(reply.error)
        return reply.value


class CallServer:
    """Answers what replicas ask, in the process with the store."""

    def __init__(self, calls: SharedCalls) -> None:
        """Set up.

        Args:
            calls: The calls, in the event loop that will serve.
        """
        self._calls = calls
        self._starts: dict[str, str] = {}
        self._answering: dict[asyncio.Task[None], str] = {}
        self._made = 0

    @property
    def made(self) -> int:
        """Calls that the replicas made, failed ones included."""
        return self._made

    async def serve(
        self,
        take: Callable[[], Awaitable[list[tuple[int, Request]]]],
        reply: Callable[[int, Reply], Awaitable[None]],
    ) -> None:
        """Answer until this is cancelled.

        Args:
            take: `Mailbox.take`, or what reaches it.
            reply: `Mailbox.reply`.
        """
        try:
            while True:
                for number, request in await take():
                    if self._starts.setdefault(request.replica, request.start) != request.start:
                        self._forget(self._starts[request.replica])
                        self._starts[request.replica] = request.start
                    # A task each: a request may wait for a call that another replica makes.
                    task = asyncio.create_task(self._answer(number, request, reply))
                    self._answering[task] = request.start
                    task.add_done_callback(self._answering.pop)
        finally:
            for task in self._answering:
                task.cancel()

    def _forget(self, start: str) -> None:
        """A replica was started anew: what it was at before is lost."""
        for task, asked_by in self._answering.items():
            if asked_by == start:
                task.cancel()
        self._calls.forget(start)

    async def _answer(
        self, number: int, request: Request, reply: Callable[[int, Reply], Awaitable[None]]
    ) -> None:
        try:
            answer = Reply(await self._do(request))
        except Exception as error:  # noqa: BLE001  it is raised in the replica, as its call's
            answer = Reply(error=f"The call could not be stored or looked up ({error}).")
        await reply(number, answer)

    async def _do(self, request: Request) -> Any:
        if request.what == "call":
            return await self._calls.call(request.given[0], request.start)
        self._made += 1
        return await getattr(self._calls, request.what)(*request.given)
