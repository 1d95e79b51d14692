"""What a user sets: pairs of models and prompt styles, read from YAML and checked by name."""

from .config import ConfigError, list_pairs, list_prompts, load_pair_config, load_prompts
from .model_pair import Backend, ModelConfig, PairConfig
from .prompt_styles import PromptsConfig, StyleConfig, TransferConfig
from .sparse_transfer import Keep, SparseTransfer

__all__ = [
    "Backend",
    "ConfigError",
    "Keep",
    "ModelConfig",
    "PairConfig",
    "PromptsConfig",
    "SparseTransfer",
    "StyleConfig",
    "TransferConfig",
    "list_pairs",
    "list_prompts",
    "load_pair_config",
    "load_prompts",
]
