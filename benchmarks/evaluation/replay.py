"""Runs that ask nobody: what the stored calls already say."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import PrivateAttr
from typing_extensions import override

from ...configs import PromptsConfig
from ...graph import create_strategy
from ...models.pairs import Pair
from .results import Result, graph_input
from .runner import Run, answered
from .shared_calls import KeepsCalls
from .stored_model import StoredModel


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
        small = _Replayed(pair.small, calls, "small", models["small"], self._miss)
        large = _Replayed(pair.large, calls, "large", models["large"], self._miss)
        self._graphs = {
            name: create_strategy(name, small, large, prompts=prompts) for name in strategies
        }

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


class _Replayed(StoredModel):  # type: ignore[no-redef]  # mypy: the base has a field named kwargs
    """A model whose calls are all from the store."""

    _on_missing: Callable[[], None] = PrivateAttr()

    def __init__(
        self,
        model: BaseChatModel,
        calls: KeepsCalls,
        role: str,
        identity: dict[str, Any],
        on_missing: Callable[[], None],
    ) -> None:
        super().__init__(model, calls, role, identity)
        self._on_missing = on_missing

    @override
    async def _make(self, key: str, *_: Any) -> Any:
        self._on_missing()
        await self._calls.give_up(key)
        raise CallNotStoredError("This call is not stored.")
