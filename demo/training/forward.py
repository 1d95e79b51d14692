"""Forward passes of the real Qwen3-VL modules, fast for one picture size and packed questions.

Every picture of the world is SIZE x SIZE pixels: 10x10 patches, merged to IMAGE_TOKENS = 25 tokens.
The passes call the modules of transformers, in the same order, without the bookkeeping for other
sizes; a test compares them with the model's own forward.
"""

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb_vision

from ..scenes import CELL, SIDE, SIZE

VisionTower: TypeAlias = Any
"""A Qwen3VLVisionModel. To the type checker, every part of a torch module may be a tensor."""
DemoModel: TypeAlias = Any
"""A Qwen3VLForConditionalGeneration."""

PATCH = CELL // 2
PATCHES_A_SIDE = SIZE // PATCH
PATCHES = PATCHES_A_SIDE**2
IMAGE_TOKENS = SIDE * SIDE
IMAGE_START = 4
"""Tokens before the picture: <|im_start|>, user, line break, <|vision_start|>."""
PREFIX_TOKENS = IMAGE_START + IMAGE_TOKENS + 1


def _in_block_order(grid: Tensor) -> Tensor:
    return grid.view(SIDE, 2, SIDE, 2).permute(0, 2, 1, 3).reshape(-1)


_PATCH_ORDER = _in_block_order(torch.arange(PATCHES).view(PATCHES_A_SIDE, PATCHES_A_SIDE))
_PATCH_PLACES = torch.stack([_PATCH_ORDER // PATCHES_A_SIDE, _PATCH_ORDER % PATCHES_A_SIDE])


def to_patches(pictures: NDArray[np.uint8]) -> Tensor:
    """Pictures [N, SIZE, SIZE, 3] as normalised patches [N, 100, 768] in the processor's order."""
    pixels = torch.from_numpy(np.array(pictures)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)
    count = pixels.shape[0]
    blocks = pixels.reshape(count, 3, SIDE, 2, PATCH, SIDE, 2, PATCH)
    return blocks.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(count, PATCHES, -1)


def vision_forward(vision: VisionTower, patches: Tensor) -> tuple[Tensor, Tensor]:
    """Merged and deepstack features, both [N, 25, hidden], of patches [N, 100, 768]."""
    count, projection = patches.shape[0], vision.patch_embed.proj
    width = projection.weight.shape[0]
    # A still picture is two equal frames, so the two halves of the kernel add up.
    kernel = projection.weight.sum(2).reshape(width, -1)
    state = functional.linear(patches, kernel, projection.bias) + vision.pos_embed(_PATCH_ORDER)
    angles = (_PATCH_PLACES[..., None].float() * vision.rotary_pos_emb.inv_freq).unbind(0)
    cos, sin = torch.cat(angles * 2, -1).cos(), torch.cat(angles * 2, -1).sin()
    deep: Tensor | None = None
    for depth, block in enumerate(vision.blocks):
        attention, normed = block.attn, block.norm1(state)
        parts = attention.qkv(normed).reshape(count, PATCHES, 3, attention.num_heads, -1)
        query, key, value = parts.permute(2, 0, 1, 3, 4).unbind(0)
        query, key = apply_rotary_pos_emb_vision(query, key, cos, sin)
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        )
        state = state + attention.proj(mixed.transpose(1, 2).reshape(count, PATCHES, -1))
        state = state + block.mlp(block.norm2(state))
        if depth in vision.deepstack_visual_indexes:
            deep = vision.deepstack_merger_list[0](state.reshape(count * PATCHES, -1))
    merged = vision.merger(state.reshape(count * PATCHES, -1))
    if deep is None:
        raise ValueError("the demo models have one deepstack layer; this vision tower has none")
    return merged.view(count, IMAGE_TOKENS, -1), deep.view(count, IMAGE_TOKENS, -1)


@torch.no_grad()
def cache_features(
    vision: VisionTower, pictures: NDArray[np.uint8], batch: int = 250
) -> tuple[Tensor, Tensor]:
    """Features of all pictures, in float16 to save memory: two tensors [N, 25, hidden]."""
    parts = [
        vision_forward(vision, to_patches(pictures[start : start + batch]))
        for start in range(0, len(pictures), batch)
    ]
    return (
        torch.cat([merged.half() for merged, _ in parts]),
        torch.cat([deep.half() for _, deep in parts]),
    )


def prefix_positions() -> Tensor:
    """M-RoPE positions [3, PREFIX_TOKENS] of the tokens up to <|vision_end|>."""
    positions = torch.zeros(3, PREFIX_TOKENS, dtype=torch.long)
    positions[:, :IMAGE_START] = torch.arange(IMAGE_START)
    image = slice(IMAGE_START, IMAGE_START + IMAGE_TOKENS)
    cells = torch.arange(IMAGE_TOKENS)
    positions[0, image] = IMAGE_START
    positions[1, image] = IMAGE_START + cells // SIDE
    positions[2, image] = IMAGE_START + cells % SIDE
    positions[:, -1] = IMAGE_START + SIDE
    return positions


def language_forward(
    model: DemoModel,
    ids: Tensor,
    image: Tensor,
    deep: Tensor,
    positions: Tensor,
    mask: Tensor,
) -> Tensor:
    """Last hidden states [B, L, hidden] of rows that each hold one picture.

    Args:
        model: The model; its vision tower is not called.
        ids: Token ids [B, L]; every row starts with the same PREFIX_TOKENS tokens.
        image: Merged features [B, 25, hidden].
        deep: Deepstack features [B, 25, hidden], added after the first layer.
        positions: M-RoPE positions [3, B, L].
        mask: True where a token (third axis) sees another (fourth axis), [B, 1, L, L].
    """
    text = model.model.language_model
    end = IMAGE_START + IMAGE_TOKENS
    state = text.embed_tokens(ids)
    state = torch.cat([state[:, :IMAGE_START], image, state[:, end:]], 1)
    rotary = text.rotary_emb(state, positions)
    for depth, layer in enumerate(text.layers):
        state = layer(state, position_embeddings=rotary, attention_mask=mask, use_cache=False)
        if depth == 0:
            seen = state[:, IMAGE_START:end] + deep
            state = torch.cat([state[:, :IMAGE_START], seen, state[:, end:]], 1)
    normed: Tensor = text.norm(state)
    return normed
