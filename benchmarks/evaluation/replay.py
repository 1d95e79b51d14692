"""Runs that ask nobody: what the stored calls already say."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...configs import PromptsConfig
from ...models.pairs import Pair
from .results import Result, graph_input
from .runner import Run, answered
from .shared_calls import KeepsCalls
from .stored_pair import StoredPair


class CallNotStoredError(LookupError):
    """A run came to a call that nobody made yet."""


class Replay:
    """Strategies over stored calls alone."""

    def __init__(
        self,
        pair: Pair,
        calls: KeepsCalls,
        models: Mapping[str, dict[str, Any]],
        strategies: Sequence[str],
        prompts: PromptsConfig,
    ) -> None:
        """Set up.

        Args:
            pair: The models, which are not asked and load nothing.
            calls: The stored calls; nobody else is making any.
            models: What `model_identity` says of each, by role.
            strategies: Names of strategies.
            prompts: The wording.
        """
        self._missing = False
        stored = StoredPair.of(pair, _StoredOnly(calls, self._miss), models, strategies)
        self._graphs = {name: stored.graph(name, prompts) for name in strategies}

    async def run(self, run: Run) -> Result | None:
        """Go as far as the stored calls reach; one run at a time.

        Returns:
            The run's result, also if it fails before it asks anything; None if a call is missing.
        """
        self._missing = False
        question = run.questions[0]
        # A task of its own: what it sets for its calls is not for the next run.
        result = await asyncio.create_task(
            answered(self._graphs[run.strategy], question.id, run.strategy, graph_input(question))
        )
        return None if self._missing else result

    def _miss(self) -> None:
        self._missing = True


class _StoredOnly:
    """Calls that are stored; others are missing, and nobody is to make them."""

    def __init__(self, calls: KeepsCalls, on_missing: Callable[[], None]) -> None:
        self._calls = calls
        self._on_missing = on_missing

    async def call(self, key: str) -> tuple[dict[str, Any], float]:
        found = await self._calls.call(key)
        if found is None:
            self._on_missing()
            await self._calls.give_up(key)
            raise CallNotStoredError("This call is not stored.")
        return found

    async def add_call(
        self, key: str, role: str, style: str, message: Mapping[str, Any], seconds: float
    ) -> None:
        await self._calls.add_call(key, role, style, message, seconds)

    async def add_failure(self, key: str, role: str, style: str, error: str) -> None:
        await self._calls.add_failure(key, role, style, error)

    async def give_up(self, key: str) -> None:
        await self._calls.give_up(key)
