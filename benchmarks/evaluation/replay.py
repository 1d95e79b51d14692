"""Runs that ask nobody: what the stored calls already say, and which of them a run will need."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from pydantic import PrivateAttr
from typing_extensions import override

from ...configs import PromptsConfig
from ...graph import create_strategy
from ...models.pairs import Pair
from .call_store import CallStore
from .results import Result, graph_input
from .runner import Run, answered
from .stored_model import StoredModel


class CallNotStoredError(LookupError):
    """A run came to a call that nobody made yet."""


@dataclass
class Replayed:
    """What a run found in the store.

    Attributes:
        calls: Message and seconds of each stored call that it looked up, by key.
        missing: Whether it came to a call that is not stored; it has no result then.
    """

    calls: dict[str, tuple[dict[str, Any], float]] = field(default_factory=dict)
    missing: bool = False


class Replay:
    """Strategies over stored calls alone."""

    def __init__(
        self,
        pair: Pair,
        store: CallStore,
        models: Mapping[str, dict[str, Any]],
        strategies: Sequence[str],
        prompts: PromptsConfig,
    ) -> None:
        """Set up.

        Args:
            pair: The models, which are not asked and load nothing.
            store: The calls.
            models: What `model_identity` says of each, by role.
            strategies: Names of strategies.
            prompts: The wording.
        """
        self._found = Replayed()
        small = _Replayed(pair.small, store, "small", models["small"], self._lookup)
        large = _Replayed(pair.large, store, "large", models["large"], self._lookup)
        self._graphs = {
            name: create_strategy(name, small, large, prompts=prompts) for name in strategies
        }

    async def run(self, run: Run) -> tuple[Result | None, Replayed]:
        """Go as far as the stored calls reach; one run at a time.

        Returns:
            The run's result, also if it fails before it asks anything; None if a call is missing.
            And what it found.
        """
        self._found = found = Replayed()
        question = run.questions[0]
        # A task of its own: what it sets for its calls is not for the next run.
        result = await asyncio.create_task(
            answered(self._graphs[run.strategy], question.id, run.strategy, graph_input(question))
        )
        return (None if found.missing else result), found

    def _lookup(self, key: str, call: tuple[dict[str, Any], float] | None) -> None:
        if call is None:
            self._found.missing = True
        else:
            self._found.calls[key] = call


class _Replayed(StoredModel):  # type: ignore[no-redef]  # mypy: the base has a field named kwargs
    """A model whose calls are all from the store."""

    _on_lookup: Any = PrivateAttr()

    def __init__(
        self, model: Any, store: CallStore, role: str, identity: dict[str, Any], on_lookup: Any
    ) -> None:
        super().__init__(model, store, role, identity)
        self._on_lookup = on_lookup

    @override
    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        self._look_up(self._key(input, kwargs))
        return super().invoke(input, config, **kwargs)

    @override
    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        self._look_up(await asyncio.to_thread(self._key, input, kwargs))
        return await super().ainvoke(input, config, **kwargs)

    def _look_up(self, key: str) -> None:
        found = self._store.call(key)
        self._on_lookup(key, found)
        if found is None:
            raise CallNotStoredError("This call is not stored.")
