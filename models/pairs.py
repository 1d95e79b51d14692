"""A small and a large model that answer together, from a pair file to two chat models."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from ..configs import (
    ConfigError,
    ModelConfig,
    PairConfig,
    PromptsConfig,
    SparseTransfer,
    load_pair_config,
    load_prompts,
)
from .attention import wanted_layers
from .capabilities import SupportsAttention
from .errors import ModelError
from .images import clear_image_cache
from .local_chat import model_weights

if TYPE_CHECKING:
    from .transformers.chat import ChatTransformers


@dataclass(frozen=True, slots=True)
class Pair:
    """Two chat models and their prompts.

    Attributes:
        name: Name or path of the pair file.
        small: The small agent's model.
        large: The large agent's model.
        prompts: The texts around a question.
        sparse: How sparse transfer selects tokens, where it is asked for.
        selector: Whose attention it selects by; None for the large model's own.
        gate: The file of its gate's calibration, if it has one.
        audit: The file of the gate's audit, if it has one.
    """

    name: str
    small: BaseChatModel
    large: BaseChatModel
    prompts: PromptsConfig
    sparse: SparseTransfer = field(default_factory=SparseTransfer)
    selector: SupportsAttention | None = None
    gate: str | None = None
    audit: str | None = None

    def models(self) -> dict[str, Any]:
        """Return the models that have weights of their own, by role, a "selector" among them."""
        own: dict[str, Any] = {"small": self.small, "large": self.large}
        if self.selector is not None and not self.selects_by_small:
            own["selector"] = self.selector
        return own

    def with_layers(self, layers: Sequence[int | None]) -> "Pair":
        """Check layers, and have a selector of its own loaded as far as they need.

        Args:
            layers: Layers whose attention will be read, 1 for the first; None for the default one.

        Raises:
            ConfigError: There is no such layer, or no such model.
        """
        from .transformers.chat import ChatTransformers

        reads: Any = self.large if self.selector is None else self.selector
        if not hasattr(reads, "count_layers"):
            return self
        try:
            count = reads.count_layers()
            name = str(getattr(reads, "model", self.name))
            each = [wanted_layers(None if one is None else [one], count, name) for one in layers]
        except ModelError as error:
            raise ConfigError(str(error)) from error
        if not isinstance(self.selector, ChatTransformers) or self.selects_by_small:
            return self
        return replace(self, selector=self.selector.model_copy(update={"layers": max(each)[0]}))

    @property
    def selects_by_small(self) -> bool:
        """Whether the small model gives the attention for sparse transfer."""
        selector: object = self.selector
        return selector is self.small


def load_pair(name_or_path: str | Path = "demo", *, allow_fetch: bool = False) -> Pair:
    """Make a pair's two chat models; local weights load at the first call.

    Args:
        name_or_path: A pair of configs/pairs by name, or a YAML file of your own.
        allow_fetch: Whether the models may fetch http(s) images.

    Raises:
        ConfigError: No such pair or file, or one that cannot be used as it is.
    """
    config = load_pair_config(name_or_path)
    small = chat_model(config, "small", allow_fetch=allow_fetch)
    return Pair(
        name=str(name_or_path),
        small=small,
        large=chat_model(config, "large", allow_fetch=allow_fetch),
        prompts=load_prompts(config.prompts),
        sparse=config.sparse,
        selector=selector(config, small, allow_fetch=allow_fetch),
        gate=config.gate,
        audit=config.audit,
    )


def chat_model(pair: PairConfig, role: str, *, allow_fetch: bool = False) -> BaseChatModel:
    """Make one chat model of a pair; local weights load at the first call.

    Args:
        pair: What the pair file says.
        role: "small" or "large".
        allow_fetch: Whether the model may fetch http(s) images.

    Raises:
        ConfigError: It cannot be used as it is.
    """
    config: ModelConfig = getattr(pair, role)
    backend = pair.backend_of(role)
    if backend == "transformers":
        return _on_transformers(config, allow_fetch)
    if backend == "vllm":
        from .vllm.chat import ChatVLLM

        return ChatVLLM(
            **_local(config, allow_fetch),
            memory=pair.memory_of(role),
            max_images=config.max_images,
            engine=config.engine,
        )
    try:
        from .server import ChatServer

        return ChatServer(
            model=config.model,
            max_pixels=config.max_pixels,
            timeout=config.timeout,
            allow_fetch=allow_fetch,
            base_url=config.base_url,
            api_key_env=config.api_key_env,
            max_retries=config.retries,
        )
    except (ImportError, ModelError) as error:
        raise ConfigError(str(error)) from error


def selector(
    pair: PairConfig, small: BaseChatModel, *, allow_fetch: bool = False
) -> SupportsAttention | None:
    """Make the model whose attention sparse transfer selects by, if the pair file names one.

    It may be `small`, the pair's small model.
    """
    if isinstance(pair.selector, ModelConfig):
        return _on_transformers(pair.selector, allow_fetch, layers=pair.sparse.layer)
    # The pair file is checked: what transformers runs gives attention.
    return small if pair.selector and isinstance(small, SupportsAttention) else None


def clear_caches(models: Iterable[object]) -> None:
    """Clear what is kept from call to call, so that timed runs start cold.

    Decoded and preprocessed images, and the KV caches of earlier prompts.

    Args:
        models: Chat models; those whose prompts are kept where nobody can reach them keep them.
    """
    clear_image_cache()
    for model in models:
        if clear := getattr(model, "clear_prefix_cache", None):
            clear()


def _local(config: ModelConfig, allow_fetch: bool) -> dict[str, Any]:
    """Return the settings that both local backends have."""
    names = {"revision", "dtype", "device", "max_pixels", "timeout"}
    model = model_weights(config.model)
    return {"model": model, "allow_fetch": allow_fetch, **config.model_dump(include=names)}


def _on_transformers(
    config: ModelConfig, allow_fetch: bool, layers: int | None = None
) -> "ChatTransformers":
    from .transformers.chat import ChatTransformers

    sizes = config.model_dump(include={"batch_size", "prefix_cache_bytes"}, exclude_none=True)
    return ChatTransformers(
        **_local(config, allow_fetch),
        attn_implementation=config.attention,
        layers=layers,
        **sizes,
    )
