"""Measures the components of models (Tables 1 to 4), cell by cell, and skips what does not fit.

Imports torch.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from PIL import Image

from ..models.errors import ModelError
from ..models.transformers.checkpoint import free_memory
from ..models.transformers.loading import is_out_of_memory
from .checkpoints import checkpoint_folder
from .machine import MachineRates, measure_rates, spread
from .profile_rows import ProfileFile, ProfileRow
from .targets import Grid, Target

if TYPE_CHECKING:
    from .transformers_model import TransformersModel
    from .vllm_model import VLLMModel

    ProfiledModel: TypeAlias = TransformersModel | VLLMModel

_WORDS = 256
"""Ids that every tokenizer has: single bytes, mostly."""


class DoesNotFit(Exception):  # noqa: N818  it is no error
    """Why a measurement is not made, in a few words."""


@dataclass(frozen=True, slots=True)
class ImageBatch:
    """Equal square images, one for each prompt of a batch.

    Attributes:
        side: Width and height of each, in pixels.
        images: The images.
        image_tokens: Tokens of a prompt that each takes.
        prepared_bytes: What preprocessing makes of all of them.
        tensors: Where the model computes in this process: that on its device.
        added_tokens: Tokens that the engine itself puts around each image.
    """

    side: int
    images: list[Image.Image]
    image_tokens: int
    prepared_bytes: int
    tensors: Mapping[str, torch.Tensor]
    added_tokens: int = 0

    @property
    def size(self) -> int:
        """How many images."""
        return len(self.images)


def noise_image(side: int) -> Image.Image:
    """Return a square image of noise, the same each time."""
    generator = torch.Generator().manual_seed(side)
    pixels = torch.randint(0, 256, (side, side, 3), dtype=torch.uint8, generator=generator)
    return Image.fromarray(pixels.numpy())


def prompt_tokens(config: Any, image_tokens: int, query_tokens: int) -> list[int]:
    """Return token ids of a prompt: an image, then meaningless words.

    Args:
        config: The model's configuration.
        image_tokens: How many the image takes.
        query_tokens: The others, markers around the image included where the model has some.
    """
    start = getattr(config, "vision_start_token_id", None)
    end = getattr(config, "vision_end_token_id", None)
    taken = {config.image_token_id, getattr(config, "video_token_id", None), start, end}
    known = config.get_text_config().vocab_size
    free = [token for token in range(min(_WORDS, known)) if token not in taken]
    image = [config.image_token_id] * image_tokens
    if start is not None and end is not None:
        image = [start, *image, end]
    words = query_tokens - (len(image) - image_tokens)
    return [*image, *(free[(7 * index) % len(free)] for index in range(words))]


def profile_models(
    targets: Sequence[Target],
    grid: Grid,
    file: ProfileFile,
    on_row: Callable[[Target, ProfileRow], object],
) -> None:
    """Measure models one after the other; one that cannot be loaded is a row of the file.

    Args:
        targets: Which, and how.
        grid: What is measured of each.
        file: Takes the rows, and holds those of an earlier run.
        on_row: Called for every row, earlier ones too.

    Raises:
        ModelError: None of the models can be loaded; the first one's reason.
        ConfigError: A model's dimensions are not known.
    """
    failures: list[ModelError] = []
    for target in targets:
        try:
            with open_model(target, grid) as model:
                rates = measure_rates(model.device, model.dtype)
                model.load()
                for row in ComponentLatency(model, file, rates, grid, target).measure():
                    on_row(target, row)
        except ModelError as error:
            failures.append(error)
            row = replace(target.row, skipped=str(error))
            file.add(row)
            on_row(target, row)
    if failures and len(failures) == len(targets):
        raise failures[0]


@contextmanager
def open_model(target: Target, grid: Grid) -> "Iterator[ProfiledModel]":
    """Provide a model to measure, with the CPU threads it runs with; both end with the context.

    Args:
        target: Which, and how.
        grid: What will be measured, which an engine needs capacity for.

    Raises:
        ModelError: It cannot be loaded, does not fit in memory, or is of no known architecture.
        ConfigError: Its dimensions are not known.
    """
    with ExitStack() as closing:
        model: ProfiledModel
        if target.backend == "vllm":
            from .vllm_model import VLLMModel

            folder = closing.enter_context(checkpoint_folder(target))
            model = VLLMModel(target, folder, grid)
        else:
            from .transformers_model import open_transformers

            model = open_transformers(target)
        closing.callback(model.close)
        before = torch.get_num_threads()
        closing.callback(torch.set_num_threads, before)
        torch.set_num_threads(model.threads or before)
        yield model


class ComponentLatency:
    """Measures one model into a file."""

    def __init__(
        self,
        model: "ProfiledModel",
        file: ProfileFile,
        rates: MachineRates,
        grid: Grid,
        target: Target,
    ) -> None:
        """Prepare.

        Args:
            model: On its backend.
            file: Takes the rows, and holds those of an earlier run.
            rates: What the machine can do.
            grid: What to measure.
            target: The settings that the user chose.
        """
        self._model = model
        self._sizes = model.sizes
        self._file = file
        self._rates = rates
        self._grid = grid
        on_cpu = model.device.type == "cpu"
        self._row = replace(
            target.row,
            dtype=str(model.dtype).removeprefix("torch."),
            device=str(model.device),
            attention=model.attention,
            memory=None if on_cpu else target.row.memory,
            threads=torch.get_num_threads() if on_cpu else None,
            gflops=rates.flops / 1e9,
            gigabytes=rates.bandwidth / 1e9,
        )

    def measure(self) -> Iterator[ProfileRow]:
        """Measure cell after cell; each row is in the file when it is yielded."""
        for batch, side in product(self._grid.batches, self._grid.image_sides):
            yield from self._measure_side(batch, side)

    def _measure_side(self, batch: int, side: int) -> Iterator[ProfileRow]:
        tokens = self._sizes.image_tokens(side)
        start = replace(self._row, batch=batch, image_side=side, image_tokens=tokens)
        images = cache(lambda: self._images(batch, side))

        def cell(measure: Callable[[ProfileRow, ImageBatch], ProfileRow], row: ProfileRow) -> Any:
            return self._cell(row, lambda row: measure(row, images()))

        yield cell(self._preprocess, replace(start, component="preprocess"))
        yield cell(self._vision, replace(start, component="vision"))
        for query in self._grid.queries(side):
            prompt = replace(start, query_tokens=query, input_tokens=tokens + query)
            yield cell(self._first_token, replace(prompt, component="ttft", output_tokens=1))
            yield from self._decode(replace(prompt, component="decode"), images)

    def _images(self, batch: int, side: int) -> ImageBatch:
        # The images as they are, and as floating-point numbers, once prepared and once moved.
        self._check_memory(batch * side**2 * 3.0 * (1 + 2 * 4))
        return self._model.image_batch(side, batch)

    def _cell(self, row: ProfileRow, measure: Callable[[ProfileRow], ProfileRow]) -> ProfileRow:
        """Return one row: as it was measured before, measured now, or skipped with the reason."""
        known = self._file.find(row)
        if known:
            return known
        try:
            with _out_of_memory_as_does_not_fit():
                measured = measure(row)
        except (DoesNotFit, ModelError) as reason:
            measured = replace(row, skipped=str(reason))
        self._file.add(measured)
        return measured

    def _preprocess(self, row: ProfileRow, images: ImageBatch) -> ProfileRow:
        moved = 3.0 * row.image_side**2 * row.batch + images.prepared_bytes
        return self._timed(row, lambda: self._model.preprocess(images), 0.0, moved)

    def _vision(self, row: ProfileRow, images: ImageBatch) -> ProfileRow:
        square = self._model.attention == "eager"
        self._check_memory(self._sizes.vision_work_bytes(row.image_side, row.batch, square=square))
        flops = self._sizes.vision_flops(row.image_side, row.batch)
        moved = float(self._sizes.vision_bytes)
        return self._timed(row, lambda: self._model.encode(images), flops, moved)

    def _first_token(self, row: ProfileRow, images: ImageBatch) -> ProfileRow:
        self._model.check_capacity(row.batch, row.input_tokens + 1)
        flops = self._sizes.vision_flops(row.image_side, row.batch)
        flops += self._sizes.prefill_flops(row.input_tokens, row.batch)
        moved = float(self._sizes.vision_bytes + self._sizes.text_bytes)
        query = row.query_tokens
        return self._timed(row, lambda: self._model.generate(images, query, 1)[0], flops, moved)

    def _timed(
        self, row: ProfileRow, run: Callable[[], float], flops: float, moved: float
    ) -> ProfileRow:
        """Measure a cell.

        Args:
            row: Its row.
            run: Returns the seconds of one run.
            flops: Its floating-point operations.
            moved: Bytes that have to be read or written.
        """
        floor, bound = self._rates.floor_seconds(flops, moved)
        self._check_time(floor)
        for _ in range(self._grid.warmup):
            run()
        return _filled(row, [run() for _ in range(self._grid.repeats)], floor, bound)

    def _decode(self, start: ProfileRow, images: Callable[[], ImageBatch]) -> Iterator[ProfileRow]:
        """One run gives the times of all shorter outputs."""
        lengths = self._grid.outputs(start.image_side, start.query_tokens)
        rows = [replace(start, output_tokens=count) for count in lengths]
        longest = cache(lambda: self._longest_runs(rows, images()))

        def measured(row: ProfileRow) -> ProfileRow:
            self._check_decode(row)
            runs, failed = longest()
            if row.output_tokens in failed:
                raise DoesNotFit(failed[row.output_tokens])
            seconds = [run[row.output_tokens] - run[0] for run in runs]
            return _filled(row, seconds, *self._decode_floor(row))

        for row in rows:
            yield self._cell(row, measured)

    def _longest_runs(
        self, rows: Sequence[ProfileRow], images: ImageBatch
    ) -> tuple[list[list[float]], dict[int, str]]:
        """Generate the longest output that is possible; where it fails, the next shorter one.

        Returns:
            Times of each token, in each of several runs; and why longer outputs failed, by length.
        """
        failed: dict[int, str] = {}
        for row in reversed(rows):
            if self._file.find(row):
                continue
            try:
                with _out_of_memory_as_does_not_fit():
                    self._check_decode(row)
                    self._model.generate(images, row.query_tokens, 2)
                    count = row.output_tokens + 1
                    runs = [
                        self._model.generate(images, row.query_tokens, count)
                        for _ in range(self._grid.decode_repeats)
                    ]
                return runs, failed
            except (DoesNotFit, ModelError) as reason:
                failed[row.output_tokens] = str(reason)
        return [], failed

    def _check_decode(self, row: ProfileRow) -> None:
        self._model.check_capacity(row.batch, row.input_tokens + row.output_tokens + 1)
        self._check_time(self._decode_floor(row)[0])

    def _decode_floor(self, row: ProfileRow) -> tuple[float, str]:
        context = row.input_tokens + row.output_tokens / 2
        flops = row.output_tokens * self._sizes.step_flops(context, row.batch)
        each = self._sizes.text_bytes + self._sizes.cache_bytes(context * row.batch)
        return self._rates.floor_seconds(flops, row.output_tokens * each)

    def _check_time(self, floor: float) -> None:
        if floor > self._grid.longest:
            # At least to the second significant digit.
            places = max(0, 1 - math.floor(math.log10(floor)))
            raise DoesNotFit(f"takes at least {floor:.{places}f} s here")

    def _check_memory(self, needed: float) -> None:
        free = free_memory(self._model.device)
        if free is not None and needed > free:
            raise DoesNotFit(f"needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")


@contextmanager
def _out_of_memory_as_does_not_fit() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, ModelError) or not is_out_of_memory(error):
            raise
        raise DoesNotFit("ran out of memory") from error


def _filled(row: ProfileRow, seconds: list[float], floor: float, bound: str) -> ProfileRow:
    median, low, high = spread(seconds)
    return replace(
        row,
        repeats=len(seconds),
        median_ms=median,
        low_ms=low,
        high_ms=high,
        floor_ms=floor * 1000,
        bound=bound,
    )
