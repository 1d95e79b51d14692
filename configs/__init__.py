"""What a user sets: pairs of models and prompt styles, read from YAML and checked by name."""

from .config import (
    ConfigError,
    ModelConfig,
    PairConfig,
    PromptsConfig,
    StyleConfig,
    TransferConfig,
    list_pairs,
    list_prompts,
    load_pair_config,
    load_prompts,
)

__all__ = [
    "ConfigError",
    "ModelConfig",
    "PairConfig",
    "PromptsConfig",
    "StyleConfig",
    "TransferConfig",
    "list_pairs",
    "list_prompts",
    "load_pair_config",
    "load_prompts",
]
