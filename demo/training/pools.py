"""Pools of drawn pictures.

The two language models learn from different ones, so that they do not make the same mistakes;
held-out questions come from a third seed.
"""

import pickle
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..scenes import COLORS, MAX_VALUE, SHAPES, SIDE, SIZE, Chart, Scene, draw, sample_scene

CHART_LABEL = 1 + len(COLORS) * len(SHAPES)
LABELS = CHART_LABEL + 1 + len(COLORS) * MAX_VALUE


class Pool(NamedTuple):
    """Scenes and their pictures, [N, SIZE, SIZE, 3] uint8."""

    scenes: list[Scene]
    pictures: NDArray[np.uint8]


def make_pool(path: Path, count: int, seed: int) -> None:
    """Draw `count` pictures and write them to `path` (.npy) and the scenes beside it (.pkl)."""
    rng = Random(seed)
    scenes = [sample_scene(rng) for _ in range(count)]
    pictures = np.zeros((count, SIZE, SIZE, 3), np.uint8)
    for index, scene in enumerate(scenes):
        pictures[index] = np.asarray(draw(scene, rng))
    path.with_suffix(".pkl").write_bytes(pickle.dumps(scenes))
    partial = path.with_suffix(".partial.npy")
    np.save(partial, pictures)
    partial.replace(path)


def load_pool(path: Path) -> Pool:
    """Read what `make_pool` wrote; the pictures stay on disk until they are used."""
    scenes = pickle.loads(path.with_suffix(".pkl").read_bytes())
    return Pool(scenes, np.load(path, mmap_mode="r"))


def cell_labels(scene: Scene) -> list[int]:
    """What each of the 25 image tokens should know: its item, or its column's bar."""
    if isinstance(scene, Chart):
        columns = [
            CHART_LABEL if bar is None else CHART_LABEL + 1 + bar.color * MAX_VALUE + bar.value - 1
            for bar in scene.columns
        ]
        return columns * SIDE
    return [
        0 if item is None else 1 + item.color * len(SHAPES) + item.shape for item in scene.cells
    ]
