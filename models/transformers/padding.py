"""Puts the inputs of several prompts into one batch, padded on the left."""

from collections.abc import Sequence

import torch

Inputs = dict[str, torch.Tensor]


def merge_inputs(prompts: Sequence[Inputs], pad: int) -> Inputs | None:
    """Merge inputs that a processor made one by one.

    What has an entry a token (ids, masks) is padded on the left, so that all prompts end at the
    same place; what belongs to pictures is put one after the other, as models expect it.

    Args:
        prompts: Each with a batch of one; `input_ids` has the shape (1, length).
        pad: Token id to pad `input_ids` with; masks and types are padded with 0.

    Returns:
        One batch, or None if the pictures' tensors do not fit together (no prompts, or a model
        that wants them padded to the same number of pictures): run the prompts one by one then.
    """
    if len(prompts) == 1:
        return dict(prompts[0])
    length = max((prompt["input_ids"].shape[1] for prompt in prompts), default=0)
    merged: Inputs = {}
    for key in dict.fromkeys(key for prompt in prompts for key in prompt):
        if _per_token(key, prompts):
            fill = pad if key == "input_ids" else 0
            merged[key] = torch.cat([_padded(prompt, key, length, fill) for prompt in prompts])
            continue
        parts = [prompt[key] for prompt in prompts if key in prompt]
        if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
            return None
        merged[key] = torch.cat(parts)
    return merged or None


def _per_token(key: str, prompts: Sequence[Inputs]) -> bool:
    return key.endswith(("_ids", "_mask")) and all(
        prompt[key].shape == prompt["input_ids"].shape for prompt in prompts if key in prompt
    )


def _padded(prompt: Inputs, key: str, length: int, fill: int) -> torch.Tensor:
    row = prompt.get(key)
    if row is None:
        row = torch.zeros_like(prompt["input_ids"])
    return torch.nn.functional.pad(row, (length - row.shape[1], 0), value=fill)
