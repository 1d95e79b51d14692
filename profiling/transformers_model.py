"""A model that transformers runs, taken apart into the components whose latency is measured.

Imports torch and transformers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from ..models.transformers.checkpoint import (
    SINGLE_THREAD_PARAMETERS,
    find_device,
    load_checkpoint,
)
from ..models.transformers.load_errors import ModelSpec
from ..models.weights import model_weights
from .model_sizes import ModelSizes
from .model_source import check_memory, random_source
from .profiled_model import DoesNotFit, Pictures, noise_picture, prompt_tokens
from .random_weights import random_model
from .stopwatch import Stopwatch, time_run
from .target import Target

_INPUTS = ("pixel_values", "image_grid_thw")

# transformers and torch leave these untyped.
_generation: Any = GenerationConfig
_on_cpu: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class TransformersModel:
    """One model with random or real weights; a `ProfiledModel`."""

    backend = "transformers"

    def __init__(self, name: str, model: Any, images: Any) -> None:
        """Take over a model in memory with its image processor.

        Args:
            name: As it was asked for.
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
        """Nothing: the weights are in memory."""

    def pictures(self, side: int, batch: int) -> Pictures:
        """Pictures of noise, and their tensors on the model's device."""
        images = [noise_picture(side)] * batch
        found = self._images(images=images, return_tensors="pt")
        prepared = {key: found[key] for key in _INPUTS if key in found}
        return Pictures(
            side=side,
            images=images,
            image_tokens=self.sizes.image_tokens(side),
            prepared_bytes=sum(value.nbytes for value in prepared.values()),
            tensors={key: self._place(value) for key, value in prepared.items()},
        )

    def preprocess(self, pictures: Pictures) -> float:
        """Seconds of the image processor, from pictures to tensors in main memory."""
        cpu = torch.device("cpu")
        return time_run(lambda: self._images(images=pictures.images, return_tensors="pt"), cpu)

    def encode(self, pictures: Pictures) -> float:
        """Seconds of the vision encoder and its projector."""
        with torch.inference_mode():
            return time_run(lambda: self._model.get_image_features(**pictures.tensors), self.device)

    def prompt(self, pictures: Pictures, query_tokens: int) -> dict[str, torch.Tensor]:
        """A batch of equal prompts as the model takes them; ids of (batch, tokens)."""
        config = self._model.config
        ids = prompt_tokens(config, pictures.image_tokens, query_tokens)
        tokens = torch.tensor([ids] * pictures.batch, device=self.device)
        types = (tokens == config.image_token_id).int()
        kinds = {"mm_token_type_ids": types} if hasattr(config, "vision_start_token_id") else {}
        mask = torch.ones_like(tokens)
        return {"input_ids": tokens, "attention_mask": mask, **kinds, **pictures.tensors}

    def write(self, pictures: Pictures, query_tokens: int, tokens: int) -> list[float]:
        """Read a batch of prompts and write exactly so many tokens to each.

        Returns:
            Seconds from the start to each token; the first is the time to first token.
        """
        prompt = self.prompt(pictures, query_tokens)
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

    def check_room(self, batch: int, tokens: int) -> None:  # noqa: ARG002  memory decides
        """See whether sequences of so many tokens are within the model's context.

        Raises:
            DoesNotFit: They are not.
        """
        if tokens > self.sizes.context:
            raise DoesNotFit(f"longer than the model's context of {self.sizes.context}")

    def flops(self, run: Callable[[], object]) -> int:
        """Floating-point operations of a run, as torch counts them."""
        with FlopCounterMode(display=False, custom_mapping={_on_cpu: _attention_flops}) as counter:
            run()
        return int(counter.get_total_flops())

    def close(self) -> None:
        """Let go of the weights."""
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

    Args:
        target: Which, and how.

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
        return TransformersModel(
            target.name, checkpoint.model, checkpoint.processor.image_processor
        )
    device = find_device(target.device)
    source = random_source(target)
    check_memory(source, target.name, device)
    model = random_model(source.config, source.dtype, device, attention)
    return TransformersModel(target.name, model, source.images)


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """As torch counts attention on other devices, from the shapes."""
    count: Any = sdpa_flop_count  # torch leaves it untyped
    return int(count(query, key, value))
