"""Strategies and their way of transferring a reasoning, as names and as graphs."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from pydantic import ValidationError

from ...configs import ConfigError, PromptsConfig, SparseTransfer
from ...graph import TRANSFER_STRATEGIES, create_strategy
from ...models.attention import Attention
from ...models.capabilities import SupportsAttention
from ...models.pairs import Pair
from ...nodes.call_cache import CallCache
from ...nodes.gate import Gate
from .results import GATED

_NAME = re.compile(
    r"(?P<strategy>\w+):sparse(-L(?P<layer>\d+))?-(?P<share>[\d.e-]+?)(-q(?P<query>\d+))?"
    r"(-(?P<keep>[a-z]+))?"
)

_KEPT_PASSES = 64


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy, and how it transfers a reasoning.

    Its name is the strategy's, and for sparse transfer what that is: `mai:sparse-L3-0.8` reads
    layer 3 and keeps 80% of the attention, `full_transfer:sparse-L3-0.8-random` keeps as many
    tokens at random. Results, tables and files know it by this name.

    Attributes:
        strategy: The strategy's own name.
        sparse: How tokens are selected; None for full transfer.
    """

    strategy: str
    sparse: SparseTransfer | None = None

    def __post_init__(self) -> None:
        if self.sparse is not None and self.strategy not in TRANSFER_STRATEGIES:
            raise ConfigError(
                f"The strategy {self.strategy!r} transfers no reasoning, so its transfer cannot "
                f"be sparse; those that do are {', '.join(TRANSFER_STRATEGIES)}."
            )

    @property
    def name(self) -> str:
        """The name of both together."""
        if self.sparse is None:
            return self.strategy
        own, default = self.sparse, SparseTransfer()
        layer = f"-L{own.layer}" if own.layer is not None else ""
        query = f"-q{-own.query}" if own.query != default.query else ""
        keep = f"-{own.keep}" if own.keep != default.keep else ""
        return f"{self.strategy}:sparse{layer}-{own.share!r}{query}{keep}"

    @classmethod
    def read(cls, name: str) -> "Variant":
        """Read a variant's name.

        Raises:
            ConfigError: No such name.
        """
        if ":" not in name:
            return cls(name)
        found = _NAME.fullmatch(name)
        if found is None:
            raise ConfigError(f"{name!r} is no strategy with sparse transfer.")
        given = {key: text for key, text in found.groupdict().items() if text and key != "strategy"}
        if "query" in given:
            given["query"] = f"-{given['query']}"
        try:
            return cls(found["strategy"], SparseTransfer.model_validate(given))
        except ValidationError as error:
            raise ConfigError(f"{name!r} is no strategy with sparse transfer.") from error


class LayerSweep:
    """Gives attention layer by layer, and reads all layers of a sweep in the first pass.

    The last passes are kept in memory: a question's strategies run at about the same time.
    """

    def __init__(self, source: SupportsAttention, layers: Sequence[int]) -> None:
        """Wrap a model.

        Args:
            source: The model whose attention is read.
            layers: Layers that will be read one after the other.
        """
        self._source = source
        self._layers = layers
        self._passes: dict[str, asyncio.Task[Attention]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def attention(self, *args: Any, **kwargs: Any) -> Attention:
        """See `SupportsAttention`."""
        return self._source.attention(*args, **kwargs)

    async def aattention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        *,
        layers: Sequence[int] | Literal["all"] | None = None,
        query: int = -1,
        **kwargs: Any,
    ) -> Attention:
        """See `SupportsAttention`."""
        if layers is None or isinstance(layers, str):
            return await self._source.aattention(
                messages, span, layers=layers, query=query, **kwargs
            )
        prompt = repr([[message.content for message in messages], span, query])
        key = hashlib.sha256(prompt.encode()).hexdigest()
        if key not in self._passes:
            every = sorted({*layers, *self._layers})
            made = self._source.aattention(messages, span, layers=every, query=query, **kwargs)
            self._passes[key] = asyncio.ensure_future(made)
        try:
            # One of those who wait may be cancelled; the pass is for the others too.
            found = await asyncio.shield(self._passes[key])
        except Exception:
            self._passes.pop(key, None)
            raise
        for old in list(self._passes)[:-_KEPT_PASSES]:
            del self._passes[old]
        return found.of_layers(layers)


def with_sweep(pair: Pair, strategies: Sequence[str]) -> Pair:
    """Return the pair with one attention pass for all layers that some variants read."""
    source: object = pair.large if pair.selector is None else pair.selector
    layers = swept_layers(strategies)
    if len(layers) < 2 or not isinstance(source, SupportsAttention):
        return pair
    return replace(pair, selector=LayerSweep(source, layers))


def strategy_graph(
    name: str, pair: Pair, prompts: PromptsConfig, *, cache: CallCache | None = None
) -> Any:
    """Build the graph of a strategy by its variant's name.

    Args:
        name: The name.
        pair: The models.
        prompts: The wording.
        cache: Where model calls are looked up and stored; None for none.

    Raises:
        ConfigError: No such strategy, or no model whose attention could be read.
    """
    if name == GATED:
        if pair.gate is None:
            raise ConfigError(f"The strategy {GATED} needs a calibration: name it with --gate.")
        # Without an audit: a figure must not depend on a coin.
        gate = Gate(pair.gate, audit_share=0)
        return create_strategy(
            "mai", pair.small, pair.large, prompts=prompts, cache=cache, gate=gate
        )
    variant = Variant.read(name)
    sparse: dict[str, Any] = {}
    if variant.sparse is not None:
        own = variant.strategy == "small_two_stage"  # there the small model reads
        sparse = {"transfer": variant.sparse, "selector": None if own else pair.selector}
    return create_strategy(
        variant.strategy, pair.small, pair.large, prompts=prompts, cache=cache, **sparse
    )


def swept_layers(names: Sequence[str]) -> tuple[int, ...]:
    """Return the layers that some variants read."""
    read = [Variant.read(name).sparse for name in names]
    return tuple(sorted({one.layer for one in read if one is not None and one.layer is not None}))
