"""A loaded model taken apart into the components whose latency is measured.

Imports torch and transformers.
"""

from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from ..configs.dimensions import load_dimensions
from ..models.errors import ModelError
from ..models.transformers.checkpoint import load_checkpoint
from ..models.transformers.loaded_models import gate
from ..models.transformers.model_spec import ModelSpec
from ..models.transformers.threads import SINGLE_THREAD_PARAMETERS
from ..models.weights import model_weights
from .random_weights import image_processor, random_model
from .stopwatch import Stopwatch

Tensors = Mapping[str, torch.Tensor]

_INPUTS = ("pixel_values", "image_grid_thw")
_MARKERS = 2
"""Tokens of a prompt around a picture, counted as the query's."""

# transformers and torch leave these untyped.
_generation: Any = GenerationConfig
_on_cpu: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class ProfiledModel:
    """One model with random or real weights, and prompts of any size for it.

    Attributes:
        name: As it was asked for.
        model: The transformers model.
        device: Where it computes.
        dtype: Of its weights.
        context: Longest prompt plus output, in tokens.
        threads: CPU threads that the package's own engine would compute with, None for torch's.
    """

    def __init__(self, name: str, model: Any, images: Any) -> None:
        """Take over a model in memory with its image processor."""
        self.name = name
        self.model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self._images = images
        text = model.config.get_text_config()
        self.context: int = text.max_position_embeddings
        self._text = text
        small = model.num_parameters() < SINGLE_THREAD_PARAMETERS
        self.threads: int | None = 1 if small and self.device.type == "cpu" else None

    def pixels(self, side: int, batch: int) -> dict[str, torch.Tensor]:
        """Pictures of noise as the vision encoder takes them.

        Args:
            side: Width and height of each, in pixels.
            batch: How many.
        """
        found = self.preprocess([noise_picture(side)] * batch)
        return {key: self._place(value) for key, value in found.items()}

    def preprocess(self, pictures: list[Image.Image]) -> dict[str, torch.Tensor]:
        """Run the image processor, and nothing else."""
        found = self._images(images=pictures, return_tensors="pt")
        return {key: found[key] for key in _INPUTS if key in found}

    def image_tokens(self, pixels: Tensors, batch: int) -> int:
        """How many tokens of a prompt one picture takes."""
        if "image_grid_thw" in pixels:
            merge = self.model.config.vision_config.spatial_merge_size
            return int(int(pixels["image_grid_thw"][0].prod()) // merge**2)
        tiles = pixels["pixel_values"].shape[0] // batch
        return int(tiles * self.model.config.image_seq_length)

    def prompt(self, pixels: Tensors, query_tokens: int, batch: int) -> dict[str, torch.Tensor]:
        """A batch of equal prompts: a picture, then random words.

        Args:
            pixels: What `pixels` gave for this batch.
            query_tokens: Tokens that are not the picture's.
            batch: How many prompts.
        """
        config = self.model.config
        image = [config.image_token_id] * self.image_tokens(pixels, batch)
        start = getattr(config, "vision_start_token_id", None)
        markers = (start, getattr(config, "vision_end_token_id", None)) if start else (None, None)
        taken = {config.image_token_id, getattr(config, "video_token_id", None), *markers}
        free = [token for token in range(min(1000, self._text.vocab_size)) if token not in taken]
        around = _MARKERS if start else 0
        words = [free[(7 * index) % len(free)] for index in range(query_tokens - around)]
        ids = [markers[0], *image, markers[1], *words] if start else [*image, *words]
        tokens = torch.tensor([ids] * batch, device=self.device)
        types = (tokens == config.image_token_id).int()
        kinds = {"mm_token_type_ids": types} if start else {}
        mask = torch.ones_like(tokens)
        return {"input_ids": tokens, "attention_mask": mask, **kinds, **pixels}

    def encode(self, pixels: Tensors) -> None:
        """Run the vision encoder."""
        with torch.inference_mode():
            self.model.get_image_features(**pixels)

    def write(self, prompt: Tensors, tokens: int) -> list[float]:
        """Read a prompt and write exactly so many tokens, whatever they are.

        Returns:
            Seconds from the start to each token; the first is the time to first token.
        """
        watch = Stopwatch(self.device)
        settings = _generation(max_new_tokens=tokens, do_sample=False, eos_token_id=None)
        self.model.generation_config = _generation()
        try:
            with torch.inference_mode():
                watch.mark()
                self.model.generate(
                    **prompt,
                    generation_config=settings,
                    stopping_criteria=StoppingCriteriaList([_Marks(watch)]),
                )
        finally:
            for part in self.model.modules():
                if hasattr(part, "rope_deltas"):
                    part.rope_deltas = None
        return watch.seconds()[1:]

    def flops(self, run: Any) -> int:
        """Floating-point operations of a run, as torch counts them."""
        with FlopCounterMode(display=False, custom_mapping={_on_cpu: _attention_flops}) as counter:
            run()
        return int(counter.get_total_flops())

    @property
    def vision_bytes(self) -> int:
        """Weights of the vision encoder, its projector included."""
        parts = (
            [self.model.model.visual]
            if hasattr(self.model.model, "visual")
            else [
                self.model.model.vision_tower,
                self.model.model.multi_modal_projector,
            ]
        )
        return sum(_weight_bytes(part) for part in parts)

    @property
    def vision_block_bytes(self) -> int:
        """Weights that every patch of a picture goes through."""
        inner = self.model.model
        blocks = inner.visual.blocks if hasattr(inner, "visual") else inner.vision_tower.encoder
        return _weight_bytes(blocks)

    @property
    def text_bytes(self) -> int:
        """Weights that every decode step reads: the language model without its embedding table."""
        embedding = self.model.get_input_embeddings().weight
        inner = _weight_bytes(self.model.model.language_model) - embedding.nbytes
        return int(inner + self.model.get_output_embeddings().weight.nbytes)

    def cache_bytes(self, tokens: float) -> float:
        """Key and value cache of so many tokens."""
        text = self._text
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        each = 2 * text.num_hidden_layers * text.num_key_value_heads * width * self.dtype.itemsize
        return float(each * tokens)

    def step_flops(self, context: float, batch: int) -> float:
        """Floating-point operations of one decode step of a batch."""
        text = self._text
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        attention = 4 * context * text.num_attention_heads * width * text.num_hidden_layers
        return float(batch * (2 * self.text_bytes / self.dtype.itemsize + attention))

    def vision_work_bytes(self, side: int, batch: int) -> float:
        """What the vision encoder needs beside its weights, roughly; eager attention a square."""
        vision = self.model.config.vision_config
        size = vision.patch_size
        patch = size[0] if isinstance(size, (list, tuple)) else size
        patches = (side // patch) ** 2
        wide = patches * (vision.hidden_size * 6 + vision.intermediate_size * 2)
        heads = getattr(vision, "num_heads", None) or vision.num_attention_heads
        eager = self.model.config._attn_implementation == "eager"
        square = 3 * heads * patches**2 if eager else 0
        return float(batch * (wide + square) * self.dtype.itemsize)

    def _place(self, value: torch.Tensor) -> torch.Tensor:
        dtype = self.dtype if value.is_floating_point() else None
        return value.to(device=self.device, dtype=dtype)


class _Marks(StoppingCriteria):
    """Marks each token, and stops at none."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        self._watch.mark()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def open_model(
    name: str, *, random_weights: bool, dtype: str, device: str, attention: str
) -> ProfiledModel:
    """Load or build a model.

    Args:
        name: Hub name, folder or `demo:small`; with random weights a name of dimensions.yaml.
        random_weights: Whether to build it from its dimensions.
        dtype: By name; "auto" is the checkpoint's, or bfloat16 for random weights.
        device: By name; "auto" is CUDA where there is a GPU.
        attention: Attention implementation of transformers.

    Raises:
        ModelError: It cannot be loaded, or has no image processor.
        ConfigError: Its dimensions are not known.
    """
    if not random_weights:
        spec = ModelSpec(model_weights(name), dtype=dtype, device=device, attention=attention)
        checkpoint = load_checkpoint(spec, gate)
        return ProfiledModel(name, checkpoint.model, checkpoint.processor.image_processor)
    dimensions = load_dimensions(name)
    kind = "bfloat16" if dtype == "auto" else dtype
    if not isinstance(getattr(torch, kind, None), torch.dtype):
        raise ModelError(f"The dtype {dtype!r} is not known; use bfloat16, float16 or float32.")
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        place = torch.device(chosen)
    except RuntimeError as error:
        raise ModelError(f"The device {device!r} is not known; use auto, cpu or cuda.") from error
    model = random_model(dimensions, getattr(torch, kind), place, attention)
    return ProfiledModel(name, model, image_processor(dimensions))


def noise_picture(side: int) -> Image.Image:
    """A square picture of noise, the same each time."""
    generator = torch.Generator().manual_seed(side)
    pixels = torch.randint(0, 256, (side, side, 3), dtype=torch.uint8, generator=generator)
    return Image.fromarray(pixels.numpy())


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """As torch counts attention on other devices, from the shapes."""
    count: Any = sdpa_flop_count  # torch leaves it untyped
    return int(count(query, key, value))


def _weight_bytes(part: Any) -> int:
    return sum(weight.nbytes for weight in part.parameters())
