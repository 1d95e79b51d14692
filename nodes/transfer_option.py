"""What of a reasoning is handed over: as the graph was made, and as a run's context wants it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..configs import ConfigError, SparseTransfer
from ..models.capabilities import SupportsAttention
from .chat_models import ChatModel, gives_attention
from .errors import MAIInputError
from .model_call import Agent
from .own_function import check_function
from .sparse_transfer import TokenSelector
from .state import Settings

Transfer = Literal["full", "sparse"] | SparseTransfer | Callable[[str], str]

Attentive = SupportsAttention | ChatModel
"""A model that gives attention, also one in LangChain's wrappers."""

HandOver = Literal["full"] | SparseTransfer | Callable[[str], str]
"""How a run hands a reasoning over."""


def check_transfer(transfer: Any) -> None:
    """Refuse what says not how a reasoning is handed over.

    Raises:
        ConfigError: Neither "full", "sparse", a `SparseTransfer` nor a function, or an async one.
    """
    if isinstance(transfer, SparseTransfer) or transfer in ("full", "sparse"):
        return
    if not callable(transfer) or transfer is SparseTransfer:
        raise ConfigError(
            '`transfer` must be "full", "sparse", a SparseTransfer or a function from a reasoning '
            f"to a text, not {transfer!r}."
        )
    check_function(transfer, "transfer")


def check_selector(selector: Any) -> None:
    """Refuse what gives no attention.

    Raises:
        ConfigError: Neither None nor a model that gives attention.
    """
    if selector is None or gives_attention(selector):
        return
    is_class = isinstance(selector, type)
    given = f"the class {selector.__name__}" if is_class else type(selector).__name__
    raise ConfigError(
        f"`selector` must be a model that gives attention, such as a ChatTransformers, not {given}."
    )


@dataclass(frozen=True, slots=True)
class TransferOption:
    """How one step hands over reasonings.

    Attributes:
        transfer: How, unless a run's context says otherwise.
        selector: Selects tokens, where the transfer is sparse.
    """

    transfer: HandOver
    selector: TokenSelector

    @classmethod
    def read(
        cls, transfer: Transfer, selector: Attentive | None, *, reader: Agent, small: Agent
    ) -> "TransferOption":
        """Check the options together.

        Args:
            transfer: As for `create_mai`.
            selector: Who gives the attention; None for the reader itself.
            reader: Who reads the reasonings.
            small: The small agent.

        Raises:
            ConfigError: No such transfer, a selector that gives no attention, or sparse transfer
                where nobody gives the attention that it needs.
        """
        check_transfer(transfer)
        check_selector(selector)
        tokens = TokenSelector(
            reader=reader,
            attends=gives_attention(reader.model if selector is None else selector),
            small=gives_attention(small.model),
        )
        wanted = SparseTransfer() if transfer == "sparse" else transfer
        if isinstance(wanted, SparseTransfer):
            tokens.check(wanted)
        return cls(wanted, tokens)

    @property
    def reader(self) -> Agent:
        """Who reads what is handed over."""
        return self.selector.reader

    def wanted(self, settings: Settings) -> HandOver:
        """How a run hands its reasoning over."""
        own, chosen = self.transfer, settings.get("transfer")
        if chosen == "full" or (chosen is None and not isinstance(own, SparseTransfer)):
            return chosen or own
        former = own if isinstance(own, SparseTransfer) else SparseTransfer()
        changed = {"layer": settings.get("sparse_layer"), "share": settings.get("sparse_share")}
        given = {name: value for name, value in changed.items() if value is not None}
        return former.model_copy(update=given)

    def check_settings(self, settings: Settings) -> None:
        """Refuse settings of a run that its graph has no use for.

        Raises:
            MAIInputError: Sparse transfer where nobody gives the attention that it needs, or its
                settings where the transfer is not sparse.
        """
        wanted = self.wanted(settings)
        if isinstance(wanted, SparseTransfer):
            try:
                self.selector.check(wanted)
            except ConfigError as error:
                raise MAIInputError(
                    f"The setting 'transfer' cannot be 'sparse' in this graph: {error}"
                ) from error
        elif names := [name for name in ("sparse_layer", "sparse_share") if name in settings]:
            raise MAIInputError(
                f"The setting {names[0]!r} is for sparse transfer, and this run's is not sparse: "
                "set 'transfer' to 'sparse' too, or leave it out."
            )
