"""Measures the components of a model, cell by cell, and skips what does not fit.

Imports torch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import product

import torch

from ..models.errors import ModelError
from ..models.transformers.checkpoint import free_memory
from ..models.transformers.load_errors import is_out_of_memory
from .grid import Grid
from .machine_rates import MachineRates
from .profile_rows import ProfileFile, ProfileRow
from .profiled_model import DoesNotFit, Pictures, ProfiledModel
from .stopwatch import spread
from .target import Target


class ComponentLatency:
    """Measures one model into a file."""

    def __init__(
        self,
        model: ProfiledModel,
        file: ProfileFile,
        rates: MachineRates,
        grid: Grid,
        target: Target,
    ) -> None:
        """Prepare.

        Args:
            model: On its backend.
            file: Takes the rows, and knows those of an earlier run.
            rates: What the machine can do.
            grid: What to measure.
            target: What the model was asked for with.
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
        """Measure cell after cell; each row is in the file when it is given out."""
        for batch, side in product(self._grid.batches, self._grid.image_sides):
            yield from self._picture(batch, side)

    def _picture(self, batch: int, side: int) -> Iterator[ProfileRow]:
        start = replace(
            self._row, batch=batch, image_side=side, image_tokens=self._sizes.image_tokens(side)
        )
        pictures = cache(lambda: self._pictures(side, batch))
        prepared = replace(start, component="preprocess")
        yield self._cell(prepared, lambda: self._preprocess(prepared, pictures()))
        vision = replace(start, component="vision")
        yield self._cell(vision, lambda: self._vision(vision, pictures()))
        for query in self._grid.queries(side):
            row = replace(start, query_tokens=query, input_tokens=start.image_tokens + query)
            first = replace(row, component="ttft", output_tokens=1)
            yield self._cell(first, lambda row=first: self._first_token(row, pictures()))  # type: ignore[misc]
            yield from self._decode(replace(row, component="decode"), pictures)

    def _pictures(self, side: int, batch: int) -> Pictures:
        # The pictures as they are, and as floating-point numbers, once prepared and once moved.
        self._check_memory(batch * side**2 * 3.0 * (1 + 2 * 4))
        return self._model.pictures(side, batch)

    def _cell(self, row: ProfileRow, measure: Callable[[], ProfileRow]) -> ProfileRow:
        """One row: as it was measured before, measured now, or skipped with the reason."""
        known = self._file.find(row)
        if known:
            return known
        try:
            with _out_of_memory_as_does_not_fit():
                measured = measure()
        except (DoesNotFit, ModelError) as reason:
            measured = replace(row, skipped=str(reason))
        self._file.add(measured)
        return measured

    def _preprocess(self, row: ProfileRow, pictures: Pictures) -> ProfileRow:
        moved = 3.0 * row.image_side**2 * row.batch + pictures.prepared_bytes
        return self._timed(row, lambda: self._model.preprocess(pictures), 0.0, moved)

    def _vision(self, row: ProfileRow, pictures: Pictures) -> ProfileRow:
        square = self._model.attention == "eager"
        needed = self._sizes.vision_work_bytes(row.image_side, row.batch, square=square)
        self._check_memory(needed)
        flops = self._sizes.vision_flops(row.image_side, row.batch)
        moved = float(self._sizes.vision_bytes)
        return self._timed(row, lambda: self._model.encode(pictures), flops, moved)

    def _first_token(self, row: ProfileRow, pictures: Pictures) -> ProfileRow:
        self._model.check_room(row.batch, row.input_tokens + 1)
        flops = self._sizes.vision_flops(row.image_side, row.batch)
        flops += self._sizes.prefill_flops(row.input_tokens, row.batch)
        moved = float(self._sizes.vision_bytes + self._sizes.text_bytes)
        return self._timed(
            row, lambda: self._model.write(pictures, row.query_tokens, 1)[0], flops, moved
        )

    def _decode(self, start: ProfileRow, pictures: Callable[[], Pictures]) -> Iterator[ProfileRow]:
        """One run gives the times of all shorter outputs."""
        lengths = self._grid.outputs(start.image_side, start.query_tokens)
        rows = [replace(start, output_tokens=count) for count in lengths]
        written = cache(lambda: self._written(rows, pictures()))

        def measured(row: ProfileRow) -> ProfileRow:
            floor, bound = self._decode_floor(row)
            self._model.check_room(row.batch, row.input_tokens + row.output_tokens + 1)
            self._check_time(floor)
            runs, failed = written()
            if row.output_tokens in failed:
                raise DoesNotFit(failed[row.output_tokens])
            seconds = [run[row.output_tokens] - run[0] for run in runs]
            return _filled(row, seconds, floor, bound)

        for row in rows:
            yield self._cell(row, lambda row=row: measured(row))  # type: ignore[misc]

    def _written(
        self, rows: Sequence[ProfileRow], pictures: Pictures
    ) -> tuple[list[list[float]], dict[int, str]]:
        """Write the longest output that is possible; where it fails, the next shorter one.

        Returns:
            Times of each token, in each of several runs; and why longer outputs failed, by length.
        """
        failed: dict[int, str] = {}
        for row in reversed(rows):
            if self._file.find(row) or not self._fits(row):
                continue
            try:
                with _out_of_memory_as_does_not_fit():
                    return self._runs(row, pictures), failed
            except (DoesNotFit, ModelError) as reason:
                failed[row.output_tokens] = str(reason)
        return [], failed

    def _runs(self, row: ProfileRow, pictures: Pictures) -> list[list[float]]:
        self._model.write(pictures, row.query_tokens, 2)
        return [
            self._model.write(pictures, row.query_tokens, row.output_tokens + 1)
            for _ in range(self._grid.decode_repeats)
        ]

    def _fits(self, row: ProfileRow) -> bool:
        try:
            self._model.check_room(row.batch, row.input_tokens + row.output_tokens + 1)
        except DoesNotFit:
            return False
        return self._decode_floor(row)[0] <= self._grid.longest

    def _decode_floor(self, row: ProfileRow) -> tuple[float, str]:
        context = row.input_tokens + row.output_tokens / 2
        flops = row.output_tokens * self._sizes.step_flops(context, row.batch)
        each = self._sizes.text_bytes + self._sizes.cache_bytes(context * row.batch)
        return self._rates.floor_seconds(flops, row.output_tokens * each)

    def _timed(
        self, row: ProfileRow, run: Callable[[], float], flops: float, moved: float
    ) -> ProfileRow:
        """Measure a cell.

        Args:
            row: Its row.
            run: Gives the seconds of one run.
            flops: Its operations, roughly; those that are counted replace them.
            moved: Bytes that have to be read or written.
        """
        self._check_time(self._rates.floor_seconds(flops, moved)[0])
        if flops:
            flops = self._model.flops(run) or flops
        floor, bound = self._rates.floor_seconds(flops, moved)
        for _ in range(self._grid.warmup):
            run()
        return _filled(row, [run() for _ in range(self._grid.repeats)], floor, bound)

    def _check_time(self, floor: float) -> None:
        if floor > self._grid.longest:
            raise DoesNotFit(f"takes at least {_two_digits(floor)} s here")

    def _check_memory(self, needed: float) -> None:
        free = free_memory(self._model.device)
        if free is not None and needed > free:
            raise DoesNotFit(f"needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")


def _two_digits(seconds: float) -> str:
    """Positive seconds, at least to their second significant digit."""
    places = max(0, 1 - math.floor(math.log10(seconds)))
    return f"{seconds:.{places}f}"


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
