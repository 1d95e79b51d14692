"""A whole profile: model after model, each gone before the next one comes.

Imports torch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch

from ..models.errors import ModelError
from .component_latency import ComponentLatency
from .grid import Grid
from .machine_rates import measure_rates
from .model_source import checkpoint_folder
from .profile_rows import ProfileFile, ProfileRow
from .profiled_model import ProfiledModel
from .target import Target


def profile_models(
    targets: Sequence[Target],
    grid: Grid,
    file: ProfileFile,
    on_row: Callable[[Target, ProfileRow], object],
) -> None:
    """Measure models; one that cannot be had is named in the file, and the others go on.

    Args:
        targets: Which, and how.
        grid: What is measured of each.
        file: Takes the rows, and knows those of an earlier run.
        on_row: Called for every row, known ones too.

    Raises:
        ModelError: None of the models can be had; the first one's reason.
        ConfigError: A model's dimensions are not known.
    """
    failures: list[ModelError] = []
    for target in targets:
        try:
            _profile(target, grid, file, on_row)
        except ModelError as error:
            failures.append(error)
            row = replace(target.row, skipped=str(error))
            file.add(row)
            on_row(target, row)
    if failures and len(failures) == len(targets):
        raise failures[0]


def _profile(
    target: Target, grid: Grid, file: ProfileFile, on_row: Callable[[Target, ProfileRow], object]
) -> None:
    with open_model(target, grid) as model:
        rates = measure_rates(model.device, model.dtype)
        model.load()
        for row in ComponentLatency(model, file, rates, grid, target).measure():
            on_row(target, row)


@contextmanager
def open_model(target: Target, grid: Grid) -> Iterator[ProfiledModel]:
    """A model to be measured, gone afterwards; meanwhile, torch has the CPU threads it runs with.

    Args:
        target: Which, and how.
        grid: What will be measured, which an engine makes room for.

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
        closing.enter_context(_threads(model.threads))
        yield model


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """CPU threads of this process, None for those that it has."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
