"""A model that vLLM runs, measured from outside its engine, and by vLLM's own encoder stopwatch.

The engine is one of `models.vllm`. Imports torch, and vLLM only where it is used.
"""

import asyncio
import math
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from ..models.errors import ModelError
from ..models.transformers.checkpoint import free_memory
from ..models.vllm.engine import get_engine, release_engine
from ..models.vllm.engine_args import EngineSpec, check_engine, options_json
from .checkpoints import check_memory, checkpoint_source
from .components import DoesNotFit, ImageBatch, noise_image, prompt_tokens
from .targets import Grid, Target

if TYPE_CHECKING:
    from ..models.vllm.engine import Engine

_MEASURING: dict[str, Any] = {
    # Nothing of an earlier prompt is reused: neither its KV cache, nor its image prepared or
    # encoded. Without both caches vLLM tells images apart by request.
    "enable_prefix_caching": False,
    "mm_processor_cache_gb": 0,
    "enable_mm_processor_stats": True,
}
_QUERY = 8
"""Tokens beside the image in prompts that exist for the image."""
_BLOCK = 128
"""Tokens in a block of the KV cache on a CPU, at most: each sequence has whole blocks."""
_LEAST_CACHE = 64 << 20
_MOST_OF_FREE = 0.5
"""Share of the free memory, the weights taken off, that a KV cache on a CPU may have."""


class VLLMModel:
    """One model in an engine of its own, which starts with the first measurement.

    Attributes as of `TransformersModel`; `attention` is "auto" if vLLM chooses.
    """

    threads: int | None = None

    def __init__(self, target: Target, folder: str, grid: Grid) -> None:
        """Prepare the engine.

        Args:
            target: Which model, and how.
            folder: Its checkpoint's folder or hub name.
            grid: What will be measured, which the KV cache needs capacity for.

        Raises:
            ModelError: vLLM is not installed or has no such options, the checkpoint cannot be
                read, its weights do not fit in memory, or its architecture is not known.
        """
        self.name = target.name
        self.attention = target.attention or "auto"
        check_engine(_spec(target, folder, "auto", {}), target.name)
        from vllm.platforms import current_platform

        self.device = torch.device(current_platform.device_type)
        source = checkpoint_source(target, folder)
        check_memory(source, target.name, self.device)
        self.dtype, self.sizes = source.dtype, source.sizes
        self._config = source.config
        own = self._cache_options(grid) if self.device.type == "cpu" else {}
        dtype = str(self.dtype).removeprefix("torch.")
        self._spec = _spec(target, folder, dtype, own)

    def load(self) -> None:
        """Start the engine.

        Raises:
            ModelError: It does not start.
        """
        self._engine()

    def image_batch(self, side: int, batch: int) -> ImageBatch:
        """Return images of noise, and what vLLM makes of them."""
        images = [noise_image(side)] * batch
        given = prompt_tokens(self._config, 1, _QUERY)
        rendered = self._render([_prompt(given, images[0])])[0]
        ids = rendered["prompt_token_ids"]
        image_tokens = list(ids).count(self._config.image_token_id)
        (image,) = rendered["mm_kwargs"]["image"]
        prepared = sum(part.data.nbytes for part in image.values())
        return ImageBatch(
            side=side,
            images=images,
            image_tokens=image_tokens,
            prepared_bytes=batch * prepared,
            tensors={},
            added_tokens=len(ids) - image_tokens - _QUERY,
        )

    def preprocess(self, images: ImageBatch) -> float:
        """Return the seconds in which vLLM renders prompts, images to tensors, in this process."""
        given = prompt_tokens(self._config, 1, _QUERY)
        prompts = [_prompt(given, image) for image in images.images]
        begun = time.perf_counter()
        self._render(prompts)
        return time.perf_counter() - begun

    def encode(self, images: ImageBatch) -> float:
        """Return the vision encoder's seconds by vLLM's own stopwatch, in a run of the prompts.

        Raises:
            DoesNotFit: The prompts are too long, or vLLM reports no time.
        """
        query = _QUERY + images.added_tokens
        self.check_capacity(images.size, images.image_tokens + query + 1)
        engine = self._engine()
        engine.run(_encoder_seconds).result()  # drops those of earlier runs
        self.generate(images, query, 1)
        seconds = engine.run(_encoder_seconds).result()
        if not seconds:
            raise DoesNotFit("vLLM did not run its encoder, or does not time it")
        return seconds

    def generate(self, images: ImageBatch, query_tokens: int, tokens: int) -> list[float]:
        """Generate exactly so many tokens for a batch of prompts.

        Returns:
            Seconds from submitting the rendered prompts to each token's arrival here, until the
            last prompt of the batch has it; the first is the time to first token.
        """
        given = prompt_tokens(self._config, 1, query_tokens - images.added_tokens)
        prompts = [_prompt(given, image) for image in images.images]

        async def work(llm: Any) -> list[float]:
            rendered = await llm.renderer.render_cmpl_async(prompts)
            begun = time.perf_counter()
            each = await asyncio.gather(*(_arrivals(llm, prompt, tokens) for prompt in rendered))
            return [max(moments) - begun for moments in zip(*each, strict=True)]

        return self._engine().run(work).result()

    def check_capacity(self, batch: int, tokens: int) -> None:
        """Check that a batch of sequences fits in the engine's context and cache.

        Raises:
            DoesNotFit: It does not.
        """
        config = self._engine().run(_configuration).result()
        context = config.model_config.max_model_len
        if tokens > context:
            raise DoesNotFit(f"longer than the engine's context of {context}")
        block = config.cache_config.block_size
        blocks = config.cache_config.num_gpu_blocks - 1  # vLLM keeps one for itself
        if batch * math.ceil(tokens / block) > blocks:
            needed = batch * tokens
            raise DoesNotFit(f"the engine's KV cache holds {blocks * block} tokens of {needed}")
        sequences = config.scheduler_config.max_num_seqs
        if batch > sequences:
            raise DoesNotFit(f"the engine takes at most {sequences} sequences at once")

    def close(self) -> None:
        """End the engine."""
        release_engine(self._spec)

    def _engine(self) -> "Engine":
        """Return the running engine; a new one if the last one has ended."""
        return get_engine(self._spec)

    def _render(self, prompts: Sequence[dict[str, Any]]) -> list[Any]:
        async def work(llm: Any) -> list[Any]:
            return list(await llm.renderer.render_cmpl_async(prompts))

        return self._engine().run(work).result()

    def _cache_options(self, grid: Grid) -> dict[str, Any]:
        """Size the KV cache for the largest batch; vLLM would take a share of all memory."""
        longest = grid.longest_sequence(self.sizes.image_tokens)
        tokens = min(longest + _QUERY, self.sizes.context) + _BLOCK
        needed = max(_LEAST_CACHE, self.sizes.cache_bytes((max(grid.batches) + 1) * tokens))
        free = free_memory(self.device)
        if free is not None:
            needed = min(needed, _MOST_OF_FREE * max(0, free - self.sizes.total_bytes))
        return {"kv_cache_memory_bytes": int(needed)}


def _spec(target: Target, folder: str, dtype: str, own: dict[str, Any]) -> EngineSpec:
    options = {**own, **target.engine, **_MEASURING}
    if target.random_weights:
        options["load_format"] = "dummy"
    if target.attention:
        options["attention_backend"] = target.attention
    return EngineSpec(
        model=folder,
        revision=target.revision,
        dtype=dtype,
        device=target.device,
        memory=target.memory,
        max_images=1,
        options=options_json(options),
    )


def _prompt(tokens: list[int], image: Image.Image) -> dict[str, Any]:
    return {"prompt_token_ids": list(tokens), "multi_modal_data": {"image": [image]}}


async def _arrivals(llm: Any, prompt: Any, tokens: int) -> list[float]:
    """Return when each token of one sequence arrives, on the clock of `time.perf_counter`."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    settings = SamplingParams(
        max_tokens=tokens,
        min_tokens=tokens,
        ignore_eos=True,
        temperature=0.0,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
    moments: list[float] = []
    async for step in llm.generate(prompt, settings, uuid.uuid4().hex):
        if step.num_cached_tokens:
            raise ModelError("vLLM read a part of the prompt from its cache, which was to be off.")
        moments += [time.perf_counter()] * len(step.outputs[0].token_ids)
    return moments


async def _encoder_seconds(llm: Any) -> float:
    """Return the seconds of the slowest worker's encoder since the last call."""
    workers = await llm.collective_rpc("get_encoder_timing_stats")
    sums = [sum(run["encoder_forward_secs"] for run in worker.values()) for worker in workers]
    return float(max(sums))


async def _configuration(llm: Any) -> Any:
    return llm.vllm_config
