"""What a run is: the graph of the cascade, and every strategy that it is compared with."""

from .build import create_mai
from .chat import ChatMAI
from .strategies import STRATEGIES, TRANSFER_STRATEGIES, create_strategy, unavailable

__all__ = [
    "STRATEGIES",
    "TRANSFER_STRATEGIES",
    "ChatMAI",
    "create_mai",
    "create_strategy",
    "unavailable",
]
