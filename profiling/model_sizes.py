"""What a model's parts weigh and compute, from its shapes alone: the floors come from these.

Imports torch.
"""

from typing import Any

import torch

from ..models.errors import ModelError


class ModelSizes:
    """Bytes and floating-point operations of one model in one dtype.

    Attributes:
        vision_bytes: Weights of the vision encoder, its projector included.
        text_bytes: Weights that every decode step reads: the language model without its embedding
            table.
        total_bytes: All weights.
        parameters: How many.
        context: Longest prompt plus output, in tokens, that the positions allow.
    """

    def __init__(self, name: str, model: Any, images: Any, dtype: torch.dtype) -> None:
        """Count.

        Args:
            name: For error messages.
            model: A transformers model; its values are not read, so the meta device will do.
            images: Its image processor, which counts the patches of an image.
            dtype: Of the weights.

        Raises:
            ModelError: An architecture whose parts are not known.
        """
        self._dtype, self._images = dtype, images
        self._config = model.config
        self._vision, self._text = model.config.vision_config, model.config.get_text_config()
        inner = model.model
        patchwise, tokenwise = _vision_parts(name, inner)
        self._patch_weights = sum(map(_count, patchwise))
        self._token_weights = sum(map(_count, tokenwise))
        vision = [inner.visual] if hasattr(inner, "visual") else [inner.vision_tower, *tokenwise]
        self.vision_bytes = sum(map(_count, vision)) * dtype.itemsize
        embedding = model.get_input_embeddings().weight.numel() * dtype.itemsize
        output = model.get_output_embeddings().weight.numel() * dtype.itemsize
        self.text_bytes = _count(inner.language_model) * dtype.itemsize - embedding + output
        self.parameters = _count(model)
        self.total_bytes = self.parameters * dtype.itemsize
        self.context: int = self._text.max_position_embeddings

    def patches(self, side: int) -> list[int]:
        """Return the patches of a square image, tile by tile: attention stays within a tile."""
        units: int = self._images.get_number_of_image_patches(side, side)
        if self._has_tiles:
            return [(self._vision.image_size[0] // self._vision.patch_size[0]) ** 2] * units
        return [units]

    def image_tokens(self, side: int) -> int:
        """Return how many tokens of a prompt a square image takes."""
        patches = self.patches(side)
        if self._has_tiles:
            return int(len(patches) * self._config.image_seq_length)
        return int(patches[0] // self._vision.spatial_merge_size**2)

    def vision_flops(self, side: int, batch: int) -> float:
        """Return the floating-point operations of the vision encoder: weights and attention."""
        patches = self.patches(side)
        depth = getattr(self._vision, "depth", None) or self._vision.num_hidden_layers
        attention = sum(4.0 * count**2 * self._vision.hidden_size * depth for count in patches)
        weights = self._patch_weights * sum(patches) + self._token_weights * self.image_tokens(side)
        return float(batch * (2 * weights + attention))

    def prefill_flops(self, tokens: int, batch: int) -> float:
        """Return the floating-point operations of a prefill with its last tokens' output head."""
        output = 2.0 * self._text.hidden_size * self._text.vocab_size * batch
        return float(tokens * (self.step_flops(tokens / 2, batch) - output) + output)

    def step_flops(self, context: float, batch: int) -> float:
        """Return the floating-point operations of one decode step of a batch."""
        attention = 4 * context * self._text.num_attention_heads * self._head_width
        layers = self._text.num_hidden_layers
        return float(batch * (2 * self.text_bytes / self._dtype.itemsize + attention * layers))

    def cache_bytes(self, tokens: float) -> float:
        """Return the bytes of a KV cache of so many tokens."""
        text = self._text
        each = 2 * text.num_hidden_layers * text.num_key_value_heads * self._head_width
        return float(each * self._dtype.itemsize * tokens)

    def vision_work_bytes(self, side: int, batch: int, *, square: bool) -> float:
        """Return roughly the bytes that the vision encoder needs beside its weights.

        Args:
            side: Of each image, in pixels.
            batch: How many images.
            square: Whether attention stores every pair of patches, as eager attention does.
        """
        patches = self.patches(side)
        wide = sum(patches) * (self._vision.hidden_size * 6 + self._vision.intermediate_size * 2)
        heads = getattr(self._vision, "num_heads", None) or self._vision.num_attention_heads
        pairs = 3 * heads * sum(count**2 for count in patches) if square else 0
        return float(batch * (wide + pairs) * self._dtype.itemsize)

    @property
    def _has_tiles(self) -> bool:
        return hasattr(self._config, "image_seq_length")

    @property
    def _head_width(self) -> int:
        text = self._text
        width: int = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return width


def _vision_parts(name: str, inner: Any) -> tuple[list[Any], list[Any]]:
    """Return the modules that every patch of an image goes through, and those of every token."""
    if hasattr(inner, "visual"):
        visual = inner.visual
        further = getattr(visual, "deepstack_merger_list", [])
        return [visual.patch_embed, visual.blocks], [visual.merger, *further]
    if hasattr(inner, "vision_tower") and hasattr(inner, "multi_modal_projector"):
        tower = inner.vision_tower
        return [tower.embeddings.patch_embeddings, tower.encoder], [inner.multi_modal_projector]
    raise ModelError(
        f"The parts of the model {name!r} are not known; take a Qwen3-VL or InternVL model."
    )


def _count(part: Any) -> int:
    return sum(weight.numel() for weight in part.parameters())
