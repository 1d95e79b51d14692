"""What a user sets: pairs of models and prompt styles, read from YAML and checked by name."""

from .files import list_pairs, list_prompts, load_pair_config, load_prompts
from .schemas import (
    ConfigError,
    Keep,
    ModelConfig,
    PairConfig,
    PromptsConfig,
    SparseTransfer,
)

__all__ = [
    "ConfigError",
    "Keep",
    "ModelConfig",
    "PairConfig",
    "PromptsConfig",
    "SparseTransfer",
    "list_pairs",
    "list_prompts",
    "load_pair_config",
    "load_prompts",
]
