"""Whether one checkpoint can write ahead for another one.

Imports torch and transformers: `loaded_models` imports it late, and modules of a loaded model do.
"""

from typing import Any

from ..errors import ModelError
from .checkpoint import read_config, read_processor
from .generation import REUSING, reuses_prefixes
from .model_spec import ModelSpec


def check_draft_files(target: ModelSpec, draft: ModelSpec) -> None:
    """Refuse a draft by what is known without the weights: types and tokenizers.

    Raises:
        ImportError: A package is missing.
        ModelError: It cannot draft, or one of the two checkpoints cannot be read.
    """
    for spec in (target, draft):
        check_takes_back(spec.model, reuses=reuses_prefixes(read_config(spec)))
    known = [vocabulary(read_processor(spec).tokenizer) for spec in (target, draft)]
    check_same_tokens((target.model, known[0]), (draft.model, known[1]))


def check_takes_back(name: str, *, reuses: bool) -> None:
    """Refuse a model that cannot take back what it read.

    Raises:
        ModelError: It cannot.
    """
    if not reuses:
        raise ModelError(
            f"{name!r} cannot take part in speculative decoding, because it cannot take back what "
            f"it read; use models of the types {', '.join(sorted(REUSING))}."
        )


def check_same_tokens(target: tuple[str, int], draft: tuple[str, int]) -> None:
    """Refuse two models, by name and vocabulary, whose tokens differ.

    Raises:
        ModelError: They differ.
    """
    if target[1] != draft[1]:
        raise ModelError(
            f"{draft[0]!r} cannot draft for {target[0]!r}: their tokenizers differ; use two models "
            "of one family."
        )


def vocabulary(tokenizer: Any) -> int:
    """A hash of all token ids with their texts: equal for equal tokenizers, in one process."""
    return hash(frozenset(tokenizer.get_vocab().items()))
