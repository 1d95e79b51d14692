"""What `create_mai` and `create_strategy` are given, made ready for the steps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.cache.base import BaseCache
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..configs import ConfigError, PromptsConfig, load_prompts
from ..nodes.chat_models import ChatModel, check_chat_model, check_timeout
from ..nodes.context import MAIContext
from ..nodes.model_call import Agent
from ..nodes.retry import MODEL_RETRY
from ..nodes.run_input import RunInput
from ..nodes.state import MAIInput, MAIOutput, RunState
from ..nodes.step import ModelStep
from .caching import SuccessCache, cache_policy


@dataclass(frozen=True, slots=True)
class Options:
    """The two agents, and the cache of their calls in one strategy."""

    small: Agent
    large: Agent
    cache: SuccessCache | None
    strategy: str

    @classmethod
    def read(
        cls,
        small: ChatModel | str,
        large: ChatModel | str,
        prompts: PromptsConfig | str | Path,
        timeout: float | None,
        allow_fetch: bool,
        cache: BaseCache[Any] | None,
        strategy: str,
    ) -> "Options":
        """Read prompts and models by name where names are given.

        Raises:
            ConfigError: Unknown prompts, a string model without langchain, or a value of a kind
                that the option does not take.
        """
        check_timeout(timeout)
        if cache is not None and not isinstance(cache, BaseCache):
            raise ConfigError(
                f"`cache` must be a LangGraph cache such as InMemoryCache(), not {cache!r}."
            )
        texts = _prompts(prompts)
        return cls(
            small=Agent("small", _chat_model(small, "small"), texts, timeout, allow_fetch),
            large=Agent("large", _chat_model(large, "large"), texts, timeout, allow_fetch),
            cache=None if cache is None else SuccessCache(cache),
            strategy=strategy,
        )

    def add(self, graph: StateGraph[Any, Any, Any, Any], step: ModelStep) -> None:
        """Add a step that asks a model, with its retries, and cached if there is a cache."""
        policy = cache_policy(step, self.strategy) if self.cache else None
        graph.add_node(step.get_name(), step, retry_policy=MODEL_RETRY, cache_policy=policy)

    def compile(
        self,
        graph: StateGraph[RunState, MAIContext, MAIInput, MAIOutput],
        checkpointer: Checkpointer,
        store: BaseStore | None,
        name: str,
    ) -> CompiledStateGraph[RunState, MAIContext, MAIInput, MAIOutput]:
        """Compile a graph whose checkpoints hold no pictures, not even as a run's input."""
        compiled = graph.compile(
            checkpointer=checkpointer, store=store, cache=self.cache, name=name
        )
        RunInput.of(compiled, MAIInput)
        return compiled


def _prompts(prompts: Any) -> PromptsConfig:
    if isinstance(prompts, PromptsConfig):
        return prompts
    if isinstance(prompts, str | Path):
        return load_prompts(prompts)
    raise ConfigError(
        f"`prompts` must be a name, a YAML file or a PromptsConfig, not {type(prompts).__name__}."
    )


def _chat_model(model: ChatModel | str, role: str) -> ChatModel:
    if not isinstance(model, str):
        check_chat_model(model, role)
        return model
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ConfigError(
            f"The model {model!r} is given by name, which needs langchain: "
            "run `pip install langchain`, or give a chat model object."
        ) from error
    try:
        named: ChatModel = init_chat_model(model)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The model {model!r} cannot be made: {reason}") from error
    return named
