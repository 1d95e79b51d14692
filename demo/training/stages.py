"""The stages of the training, their sizes and order, and a runner that resumes."""


import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from .batches import Mix
from .language_stage import LanguagePlan, train_language
from .pools import load_pool, make_pool
from .reasonings import load_reasonings, write_reasonings
from .vision_stage import VisionPlan, train_vision

_LISTING = {"list": 0.5, "reason": 0.5}

SMALL = LanguagePlan(
    steps=4500,
    rows=32,
    early=Mix(2, _LISTING),
    late=Mix(2, {"reason": 0.65, "explain": 0.15, "transfer": 0.2}, 1.0, 0.0),
    turn=600,
    wrong_share=0.3,
)
LARGE_FIRST = LanguagePlan(
    steps=2400,
    rows=32,
    early=Mix(2, _LISTING),
    late=Mix(2, {"reason": 0.5, "explain": 0.12, "transfer": 0.38}),
    turn=500,
    peak_rate=1.6e-3,
    last_share=0.5,
)
_CHECKING = Mix(2, {"reason": 0.35, "explain": 0.1, "transfer": 0.55})
LARGE = LanguagePlan(
    steps=3000, rows=32, early=_CHECKING, late=_CHECKING, peak_rate=9e-4, warmup=30
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the training; done when `makes` exists in the output folder."""

    makes: str
    needs: tuple[str, ...]
    run: Callable[[Path, Path], None]


def _small_pool(_folder: Path, out: Path) -> None:
    make_pool(out, 32_000, 101)


def _large_pool(_folder: Path, out: Path) -> None:
    make_pool(out, 36_000, 202)


def _small_vision(folder: Path, out: Path) -> None:
    pool = load_pool(folder / "pool_small.npy")
    train_vision("small", pool, out, VisionPlan(1400), 101, log)


def _large_vision(folder: Path, out: Path) -> None:
    pool = load_pool(folder / "pool_large.npy")
    train_vision("large", pool, out, VisionPlan(1600), 202, log)


def _small_language(folder: Path, out: Path) -> None:
    pool = load_pool(folder / "pool_small.npy")
    train_language(folder / "vision_small", pool, out, SMALL, 11, log)


def _large_first(folder: Path, out: Path) -> None:
    pool = load_pool(folder / "pool_large.npy")
    train_language(folder / "vision_large", pool, out, LARGE_FIRST, 21, log)


def _reasonings(folder: Path, out: Path) -> None:
    pool = load_pool(folder / "pool_large.npy")
    write_reasonings(folder / "small", pool, out, 24_000, 31, log)


def _large_language(folder: Path, out: Path) -> None:
    pool = load_pool(folder / "pool_large.npy")
    real = load_reasonings(folder / "reasonings.pkl")
    train_language(folder / "large_first", pool, out, LARGE, 22, log, real)


STAGES = (
    Stage("pool_small.npy", (), _small_pool),
    Stage("pool_large.npy", (), _large_pool),
    Stage("vision_small", ("pool_small.npy",), _small_vision),
    Stage("vision_large", ("pool_large.npy",), _large_vision),
    Stage("small", ("vision_small",), _small_language),
    Stage("large_first", ("vision_large",), _large_first),
    Stage("reasonings.pkl", ("small", "pool_large.npy"), _reasonings),
    Stage("large", ("large_first", "reasonings.pkl"), _large_language),
)


def log(line: str) -> None:
    """One line of progress with the time of day."""
    print(time.strftime("%H:%M:%S"), line, flush=True)  # noqa: T201


def run_stage(stage: Stage, folder: Path) -> None:
    """Run one stage in this process, on one core."""
    import torch

    torch.set_num_threads(1)
    log(f"{stage.makes}: started")
    stage.run(folder, folder / stage.makes)
    log(f"{stage.makes}: done")


def train(folder: Path, jobs: int = 2) -> None:
    """Run the stages whose results are missing, at most `jobs` at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {stage.makes for stage in STAGES if (folder / stage.makes).exists()}
    waiting = [stage for stage in STAGES if stage.makes not in done]
    running: dict[Future[None], Stage] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        while waiting or running:
            for stage in [s for s in waiting if done.issuperset(s.needs)][: jobs - len(running)]:
                waiting.remove(stage)
                running[pool.submit(run_stage, stage, folder)] = stage
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                done.add(running.pop(future).makes)
