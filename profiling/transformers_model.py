"""A model that transformers runs, taken apart into the components whose latency is measured.

Imports torch and transformers.
"""

from typing import Any

import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from ..models.local_chat import model_weights
from ..models.transformers.checkpoint import (
    SINGLE_THREAD_PARAMETERS,
    find_device,
    load_checkpoint,
)
from ..models.transformers.loading import ModelSpec
from .checkpoints import check_memory, random_model, random_source
from .components import DoesNotFit, ImageBatch, noise_image, prompt_tokens
from .machine import Stopwatch, time_run
from .model_sizes import ModelSizes
from .targets import Target

_INPUTS = ("pixel_values", "image_grid_thw")

# transformers leaves it untyped.
_generation: Any = GenerationConfig


class TransformersModel:
    """One model with random or real weights.

    Attributes:
        name: As the user named it.
        device: Where it computes.
        dtype: Of its weights.
        attention: Its attention implementation.
        threads: CPU threads that the package's own engine would compute with, None for torch's.
        sizes: What its parts weigh and compute.
    """

    def __init__(self, name: str, model: Any, images: Any) -> None:
        """Take over a model in memory with its image processor.

        Args:
            name: As the user named it.
            model: The transformers model.
            images: Its image processor.

        Raises:
            ModelError: An architecture whose parts are not known.
        """
        self.name = name
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.attention = str(model.config._attn_implementation)
        self.sizes = ModelSizes(name, model, images, model.dtype)
        small = self.sizes.parameters < SINGLE_THREAD_PARAMETERS
        self.threads: int | None = 1 if small and self.device.type == "cpu" else None
        self._model = model
        self._images = images

    def load(self) -> None:
        """Do nothing: the weights are in memory."""

    def image_batch(self, side: int, batch: int) -> ImageBatch:
        """Return images of noise, and their tensors on the model's device."""
        images = [noise_image(side)] * batch
        found = self._images(images=images, return_tensors="pt")
        prepared = {key: found[key] for key in _INPUTS if key in found}
        return ImageBatch(
            side=side,
            images=images,
            image_tokens=self.sizes.image_tokens(side),
            prepared_bytes=sum(value.nbytes for value in prepared.values()),
            tensors={key: self._place(value) for key, value in prepared.items()},
        )

    def preprocess(self, images: ImageBatch) -> float:
        """Return the seconds of the image processor, from images to tensors in main memory."""
        cpu = torch.device("cpu")
        return time_run(lambda: self._images(images=images.images, return_tensors="pt"), cpu)

    def encode(self, images: ImageBatch) -> float:
        """Return the seconds of the vision encoder and its projector."""
        with torch.inference_mode():
            return time_run(lambda: self._model.get_image_features(**images.tensors), self.device)

    def prompt(self, images: ImageBatch, query_tokens: int) -> dict[str, torch.Tensor]:
        """Return a batch of equal prompts as the model takes them; ids of (batch, tokens)."""
        config = self._model.config
        ids = prompt_tokens(config, images.image_tokens, query_tokens)
        tokens = torch.tensor([ids] * images.size, device=self.device)
        types = (tokens == config.image_token_id).int()
        kinds = {"mm_token_type_ids": types} if hasattr(config, "vision_start_token_id") else {}
        mask = torch.ones_like(tokens)
        return {"input_ids": tokens, "attention_mask": mask, **kinds, **images.tensors}

    def generate(self, images: ImageBatch, query_tokens: int, tokens: int) -> list[float]:
        """Generate exactly so many tokens for a batch of prompts.

        Returns:
            Seconds from the start to each token; the first is the time to first token.
        """
        prompt = self.prompt(images, query_tokens)
        watch = Stopwatch(self.device)
        settings = _generation(max_new_tokens=tokens, do_sample=False, eos_token_id=None)
        self._model.generation_config = _generation()
        try:
            with torch.inference_mode():
                watch.mark()
                self._model.generate(
                    **prompt,
                    generation_config=settings,
                    stopping_criteria=StoppingCriteriaList([_Marks(watch)]),
                )
        finally:
            for part in self._model.modules():
                if hasattr(part, "rope_deltas"):
                    part.rope_deltas = None
        return watch.seconds()[1:]

    def check_capacity(self, batch: int, tokens: int) -> None:  # noqa: ARG002  memory decides
        """Check that sequences of so many tokens are within the model's context.

        Raises:
            DoesNotFit: They are not.
        """
        if tokens > self.sizes.context:
            raise DoesNotFit(f"longer than the model's context of {self.sizes.context}")

    def close(self) -> None:
        """Release the weights."""
        self._model = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

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


def open_transformers(target: Target) -> TransformersModel:
    """Load or build a model.

    Raises:
        ModelError: It cannot be loaded, does not fit in memory, or is of no known architecture.
        ConfigError: Its dimensions are not known.
    """
    attention = target.attention or "sdpa"
    if not target.random_weights:
        spec = ModelSpec(
            model_weights(target.name),
            revision=target.revision,
            dtype=target.dtype,
            device=target.device,
            attention=attention,
        )
        checkpoint = load_checkpoint(spec)
        images = checkpoint.processor.image_processor
        return TransformersModel(target.name, checkpoint.model, images)
    device = find_device(target.device)
    source = random_source(target)
    check_memory(source, target.name, device)
    model = random_model(source.config, source.dtype, device, attention)
    return TransformersModel(target.name, model, source.images)
