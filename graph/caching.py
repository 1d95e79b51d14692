"""Reuse of model calls between runs: equal content, equal answer.

LangGraph's default key holds message ids, which differ on every run, and it would store a failed
call like any other.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langgraph.cache.base import BaseCache, FullKey, Namespace
from langgraph.types import CachePolicy
from pydantic import BaseModel
from typing_extensions import override

from ..nodes.state import RunState
from ..nodes.step import ModelStep


class SuccessCache(BaseCache[Any]):
    """Another cache, without the failed calls: those are tried again."""

    def __init__(self, cache: BaseCache[Any]) -> None:
        super().__init__(serde=cache.serde)
        self._cache = cache

    @override
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        return self._cache.get(keys)

    @override
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        return await self._cache.aget(keys)

    @override
    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        if kept := _succeeded(pairs):
            self._cache.set(kept)

    @override
    async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        if kept := _succeeded(pairs):
            await self._cache.aset(kept)

    @override
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self._cache.clear(namespaces)

    @override
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await self._cache.aclear(namespaces)


def cache_policy(step: ModelStep, strategy: str) -> CachePolicy[Callable[[RunState], str]]:
    """The policy of a step that asks a model.

    The key is a hash of the strategy (LangGraph stores with a call which step comes next), the
    model and its settings, its draft if it has one, the prompts and the prompt style, the question
    with its choices and answer type, the images' pixels, and the text that the prompt quotes. Of
    sparse transfer it holds how tokens are selected and by whose attention, so that a call is found
    without selecting them again.
    """
    fixed = [
        strategy,
        _identity(step.agent.model),
        None if step.agent.draft is None else _identity(step.agent.draft),
        step.agent.prompts.model_dump(),
        step.style,
    ]
    known: dict[int, list[Any]] = {}  # once a model: one that says nothing equals itself at least

    def key(state: RunState) -> str:
        task: Any = {**state["task"], "images": None}
        content = [*fixed, task, step.quotes(state)]
        if selecting := step.selects(state):
            sparse, models = selecting
            content.append(sparse.model_dump())
            content += [known.setdefault(id(model), _identity(model)) for model in models]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    return CachePolicy(key_func=key)


def _succeeded(pairs: Mapping[FullKey, tuple[Any, int | None]]) -> dict[FullKey, Any]:
    return {
        key: (writes, ttl)
        for key, (writes, ttl) in pairs.items()
        if not any(isinstance(value, dict) and value.get("error") for _, value in writes)
    }


def _identity(model: Any) -> list[Any]:
    """What tells two models apart; one that says nothing about itself equals no other."""
    if isinstance(model, RunnableBindingBase):
        chosen = (model.config or {}).get("configurable")
        return ["bound", _written([model.kwargs, chosen]), _identity(model.bound)]
    if isinstance(model, RunnableWithFallbacks):
        return ["fallbacks", *map(_identity, model.runnables)]
    # LangChain's hook for exactly this; what gives attention alone has none.
    parameters = getattr(model, "_identifying_params", None)
    if parameters is None and isinstance(model, BaseModel):
        parameters = model.model_dump()
    known = _written(parameters) if parameters else str(uuid4())
    return [type(model).__module__, type(model).__qualname__, known]


def _written(value: Any) -> str:
    """A value as a text that equals no other value's."""
    try:
        text = json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError):  # keys that cannot be sorted, or a circle
        return str(uuid4())
    # A memory address tells nothing: the next object may come to lie there.
    return str(uuid4()) if " at 0x" in text else text
