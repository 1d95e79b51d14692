"""A pair whose calls and attention passes are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from ...configs import PromptsConfig
from ...models.capabilities import SupportsAttention
from ...models.pairs import Pair
from .shared_calls import KeepsCalls
from .stored_attention import StoredAttention
from .stored_model import StoredModel
from .variants import Variant, swept_layers


@dataclass(frozen=True, slots=True)
class StoredPair:
    """Two stored models, and who gives attention in the large one's place.

    Attributes:
        small: The small model.
        large: The large model.
        passes: All that give attention.
        selector: The pair's selector, if it has one.
    """

    small: StoredModel
    large: StoredModel
    passes: tuple[StoredAttention, ...]
    selector: StoredAttention | None

    @classmethod
    def of(
        cls,
        pair: Pair,
        calls: KeepsCalls,
        models: Mapping[str, dict[str, Any]],
        strategies: Sequence[str],
    ) -> "StoredPair":
        """Wrap the models of a pair.

        Args:
            pair: Who answers what is not stored.
            calls: Where the calls are.
            models: What `model_identity` says of each, by role; of a selector with weights of its
                own as "selector".
            strategies: The strategies that will be asked, by their variants' names.
        """
        layers = swept_layers(strategies)
        passes: list[StoredAttention] = []

        def attention(source: object, role: str, identity: str) -> StoredAttention | None:
            if not isinstance(source, SupportsAttention):
                return None
            passes.append(StoredAttention(source, calls, role, models[identity], layers))
            return passes[-1]

        def model(chat: BaseChatModel, role: str) -> StoredModel:
            return StoredModel(chat, calls, role, models[role], attention(chat, role, role))

        small, large = model(pair.small, "small"), model(pair.large, "large")
        own = "small" if pair.selects_by_small else "selector"
        selector = attention(pair.selector, "large", own)
        return cls(small, large, tuple(passes), selector)

    @property
    def made(self) -> int:
        """Calls and passes that the models themselves were asked for, failed ones included."""
        return self.small.made + self.large.made + sum(one.made for one in self.passes)

    def graph(self, name: str, prompts: PromptsConfig) -> Any:
        """The graph of a strategy, by its variant's name.

        Raises:
            ConfigError: No such strategy, or nobody gives the attention that it needs.
        """
        return Variant.read(name).graph(
            self.small, self.large, prompts=prompts, selector=self.selector
        )
