"""Strategies with the way in which they hand a reasoning over, as names and as graphs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ...configs import ConfigError, PromptsConfig, SparseTransfer
from ...graph import TRANSFER_STRATEGIES, create_strategy
from ...models.capabilities import SupportsAttention

_NAME = re.compile(
    r"(?P<strategy>\w+):sparse(-L(?P<layer>\d+))?-(?P<share>[\d.e-]+?)(-q(?P<query>\d+))?"
    r"(-(?P<keep>[a-z]+))?"
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy, and how it hands a reasoning over.

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
                f"The strategy {self.strategy!r} hands no reasoning over, so its transfer cannot "
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
        """A variant by its name.

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

    def graph(
        self,
        small: Any,
        large: Any,
        *,
        prompts: PromptsConfig,
        selector: SupportsAttention | None = None,
    ) -> Any:
        """The variant's graph.

        Args:
            small: The small model, as for `create_strategy`.
            large: The large one.
            prompts: The wording.
            selector: Gives attention in the large model's place; None if it does that itself.

        Raises:
            ConfigError: No such strategy, or nobody gives the attention that it needs.
        """
        if self.sparse is None:
            return create_strategy(self.strategy, small, large, prompts=prompts)
        of_small = self.strategy == "small_two_stage"
        return create_strategy(
            self.strategy,
            small,
            large,
            prompts=prompts,
            transfer=self.sparse,
            selector=None if of_small else selector,
        )


def swept_layers(names: Sequence[str]) -> tuple[int, ...]:
    """The layers that some variants read, so that one pass can serve them all."""
    read = [Variant.read(name).sparse for name in names]
    return tuple(sorted({one.layer for one in read if one is not None and one.layer is not None}))
