"""What `create_mai` and `create_strategy` are given, made ready for the steps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.cache.base import BaseCache
from langgraph.graph import StateGraph

from ..configs import ConfigError, PromptsConfig, load_prompts
from ..nodes.model_call import Agent
from ..nodes.step import ModelStep
from .caching import SuccessCache, cache_policy


@dataclass(frozen=True, slots=True)
class Options:
    """The two agents, and the cache of their calls."""

    small: Agent
    large: Agent
    cache: SuccessCache | None

    @classmethod
    def read(
        cls,
        small: BaseChatModel | str,
        large: BaseChatModel | str,
        prompts: PromptsConfig | str | Path,
        timeout: float | None,
        allow_fetch: bool,
        cache: BaseCache[Any] | None,
    ) -> "Options":
        """Read prompts and models by name where names are given.

        Raises:
            ConfigError: Unknown prompts, or a string model without langchain.
        """
        texts = prompts if isinstance(prompts, PromptsConfig) else load_prompts(prompts)
        return cls(
            small=Agent("small", _chat_model(small), texts, timeout, allow_fetch),
            large=Agent("large", _chat_model(large), texts, timeout, allow_fetch),
            cache=None if cache is None else SuccessCache(cache),
        )

    def add(self, graph: StateGraph[Any, Any, Any, Any], step: ModelStep) -> None:
        """Add a step that asks a model, cached if there is a cache."""
        policy = cache_policy(step) if self.cache else None
        graph.add_node(step.get_name(), step, cache_policy=policy)


def _chat_model(model: BaseChatModel | str) -> BaseChatModel:
    if not isinstance(model, str):
        return model
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ConfigError(
            f"The model {model!r} is given by name, which needs langchain: "
            "run `pip install langchain`, or give a chat model object."
        ) from error
    named: BaseChatModel = init_chat_model(model)
    return named
