"""Measures the components of a model, cell by cell, and skips what does not fit.

Imports torch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch

from ..models.transformers.load_errors import is_out_of_memory
from ..models.transformers.memory import free_memory
from .machine_rates import MachineRates
from .profile_rows import ProfileFile, ProfileRow
from .profiled_model import ProfiledModel, Tensors, noise_picture
from .stopwatch import spread, time_runs

_PROMPT_SIDE = 1024
"""Largest picture of Table 3's prompts; the encoder alone is measured beyond."""
_DECODE_SIDE, _DECODE_QUERY = 512, 256
"""Largest picture and question of Table 4."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured; the defaults are those of the paper's Tables 1 to 4.

    Attributes:
        image_sides: Pixels.
        query_tokens: Tokens of a prompt beside its picture.
        output_tokens: Tokens written.
        batches: Equal prompts at once.
        repeats: How often each is measured; decoding a third as often, but three times.
        warmup: Runs before that are not counted.
        longest: Seconds; what cannot be faster than that, by the floor, is skipped.
    """

    image_sides: Sequence[int] = (256, 512, 1024, 2048, 4096)
    query_tokens: Sequence[int] = (64, 256, 512)
    output_tokens: Sequence[int] = (8, 128, 256, 512)
    batches: Sequence[int] = (1,)
    repeats: int = 9
    warmup: int = 1
    longest: float = 60.0


class _Skipped(Exception):  # noqa: N818  nothing went wrong
    """Why a measurement is not made."""


class ComponentLatency:
    """Measures one model into a file."""

    def __init__(
        self, model: ProfiledModel, file: ProfileFile, rates: MachineRates, grid: Grid, weights: str
    ) -> None:
        """Prepare.

        Args:
            model: In memory.
            file: Takes the rows, and knows those of an earlier run.
            rates: What the machine can do.
            grid: What to measure.
            weights: "real" or "random".
        """
        self._model = model
        self._file = file
        self._rates = rates
        self._grid = grid
        self._row = ProfileRow(
            model=model.name,
            backend="transformers",
            dtype=str(model.dtype).removeprefix("torch."),
            device=str(model.device),
            attention=str(model.model.config._attn_implementation),
            weights=weights,
            component="preprocess",
            batch=1,
            image_side=0,
            image_tokens=0,
            query_tokens=0,
            input_tokens=0,
            output_tokens=0,
        )

    def measure(self) -> Iterator[ProfileRow]:
        """Measure cell after cell; each row is in the file when it is given out."""
        for batch, side in product(self._grid.batches, self._grid.image_sides):
            yield from self._picture(batch, side)

    def _picture(self, batch: int, side: int) -> Iterator[ProfileRow]:
        start = replace(self._row, batch=batch, image_side=side)
        pictures = [noise_picture(side)] * batch
        pixels: Tensors = {}

        def prepare() -> ProfileRow:
            nonlocal pixels
            pixels = self._model.pixels(side, batch)
            row = replace(start, image_tokens=self._model.image_tokens(pixels, batch))
            moved = 3.0 * side**2 * batch + sum(value.nbytes for value in pixels.values())
            return self._timed(row, lambda: self._model.preprocess(pictures), 0.0, moved)

        yield self._cell(start, prepare)
        if not pixels:
            pixels = self._model.pixels(side, batch)
        start = replace(start, image_tokens=self._model.image_tokens(pixels, batch))
        yield self._cell(
            replace(start, component="vision"), lambda: self._vision(start, pixels, batch)
        )
        for query in self._grid.query_tokens if side <= _PROMPT_SIDE else ():
            row = replace(start, query_tokens=query, input_tokens=start.image_tokens + query)
            first = replace(row, component="ttft", output_tokens=1)
            yield self._cell(first, lambda row=first: self._first_token(row, pixels))  # type: ignore[misc]
            if side <= _DECODE_SIDE and query <= _DECODE_QUERY:
                yield from self._decode(replace(row, component="decode"), pixels)

    def _cell(self, row: ProfileRow, measure: Callable[[], ProfileRow]) -> ProfileRow:
        """One row: as it was measured before, measured now, or skipped with the reason."""
        known = self._file.find(row)
        if known:
            return known
        try:
            measured = measure()
        except _Skipped as reason:
            measured = replace(row, skipped=str(reason))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            measured = replace(row, skipped="ran out of memory")
        self._file.add(measured)
        return measured

    def _vision(self, start: ProfileRow, pixels: Tensors, batch: int) -> ProfileRow:
        row = replace(start, component="vision")
        self._check_memory(self._model.vision_work_bytes(row.image_side, batch))
        flops = self._vision_flops(pixels)
        moved = float(self._model.vision_bytes)
        return self._timed(row, lambda: self._model.encode(pixels), flops, moved)

    def _vision_flops(self, pixels: Tensors) -> float:
        """Estimated before anything runs: the encoder's blocks and their attention."""
        patches = self._patches(pixels)
        vision = self._model.model.config.vision_config
        depth = getattr(vision, "depth", None) or vision.num_hidden_layers
        attention = sum(4.0 * count**2 * vision.hidden_size * depth for count in patches)
        weights = self._model.vision_block_bytes / self._model.dtype.itemsize
        return float(2 * weights * sum(patches) + attention)

    def _patches(self, pixels: Tensors) -> list[int]:
        """Patches of each picture or tile, which attend to each other."""
        if "image_grid_thw" in pixels:
            return [int(grid.prod()) for grid in pixels["image_grid_thw"]]
        vision = self._model.model.config.vision_config
        each = (vision.image_size[0] // vision.patch_size[0]) ** 2
        return [each] * len(pixels["pixel_values"])

    def _first_token(self, row: ProfileRow, pixels: Tensors) -> ProfileRow:
        self._check_context(row.input_tokens + 1)
        prompt = self._model.prompt(pixels, row.query_tokens, row.batch)
        flops = self._vision_flops(pixels)
        flops += row.input_tokens * self._model.step_flops(row.input_tokens / 2, row.batch)
        moved = float(self._model.vision_bytes + self._model.text_bytes)
        return self._timed(row, lambda: self._model.write(prompt, 1), flops, moved)

    def _decode(self, start: ProfileRow, pixels: Tensors) -> Iterator[ProfileRow]:
        """One run gives the times of all shorter outputs."""
        rows = [replace(start, output_tokens=count) for count in sorted(self._grid.output_tokens)]
        times: list[list[float]] = []

        def measured(row: ProfileRow) -> ProfileRow:
            floor, bound = self._decode_floor(row)
            self._check_context(row.input_tokens + row.output_tokens + 1)
            self._check_time(floor)
            if not times:
                times.extend(self._written(rows, pixels))
            seconds = [run[row.output_tokens] - run[0] for run in times]
            return _filled(row, seconds, floor, bound)

        for row in rows:
            yield self._cell(row, lambda row=row: measured(row))  # type: ignore[misc]

    def _written(self, rows: Sequence[ProfileRow], pixels: Tensors) -> list[list[float]]:
        """Times of each token, in each of several runs that write the longest possible output."""
        open_rows = [row for row in rows if not self._file.find(row) and self._fits(row)]
        longest = open_rows[-1]
        prompt = self._model.prompt(pixels, longest.query_tokens, longest.batch)
        self._model.write(prompt, 2)
        repeats = min(self._grid.repeats, max(3, self._grid.repeats // 3))
        return [self._model.write(prompt, longest.output_tokens + 1) for _ in range(repeats)]

    def _fits(self, row: ProfileRow) -> bool:
        short = row.input_tokens + row.output_tokens < self._model.context
        return short and self._decode_floor(row)[0] <= self._grid.longest

    def _decode_floor(self, row: ProfileRow) -> tuple[float, str]:
        context = row.input_tokens + row.output_tokens / 2
        flops = row.output_tokens * self._model.step_flops(context, row.batch)
        each = self._model.text_bytes + self._model.cache_bytes(context * row.batch)
        return self._rates.floor_seconds(flops, row.output_tokens * each)

    def _timed(
        self, row: ProfileRow, run: Callable[[], object], flops: float, moved: float
    ) -> ProfileRow:
        self._check_time(self._rates.floor_seconds(flops, moved)[0])
        if flops:
            flops = self._model.flops(run)
        floor, bound = self._rates.floor_seconds(flops, moved)
        seconds = time_runs(run, self._grid.repeats, self._grid.warmup, self._model.device)
        return _filled(row, seconds, floor, bound)

    def _check_time(self, floor: float) -> None:
        if floor > self._grid.longest:
            raise _Skipped(f"takes at least {floor:.0f} s here")

    def _check_context(self, tokens: int) -> None:
        if tokens > self._model.context:
            raise _Skipped(f"longer than the model's context of {self._model.context}")

    def _check_memory(self, needed: float) -> None:
        if self._model.device.type == "cuda":
            free: int | None = torch.cuda.mem_get_info(self._model.device)[0]
        else:
            free = free_memory()
        if free is not None and needed > free:
            raise _Skipped(f"needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")


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
