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
_SCANNING = Mix(2, {"reason": 0.5, "explain": 0.05, "transfer": 0.45})
_CHECKING = Mix(2, {"reason": 0.5, "explain": 0.05, "transfer": 0.45})


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything.

    Attributes:
        small_pool: Pictures that the small model learns from.
        large_pool: Pictures that the large model learns from.
        reasonings: Real reasonings of the small model that the large one learns to check.
        small_vision: The small model's vision tower.
        large_vision: The large model's vision tower.
        small: The small language model.
        large_first: The large language model learns to see and to scan.
        large_second: It goes on with more transfers, all made up.
        large: It goes on with the real ones.
    """

    small_pool: int
    large_pool: int
    reasonings: int
    small_vision: VisionPlan
    large_vision: VisionPlan
    small: LanguagePlan
    large_first: LanguagePlan
    large_second: LanguagePlan
    large: LanguagePlan


DEMO_SIZES = Sizes(
    small_pool=32_000,
    large_pool=36_000,
    reasonings=24_000,
    small_vision=VisionPlan(1400),
    large_vision=VisionPlan(1600),
    small=LanguagePlan(
        steps=5000,
        rows=32,
        early=Mix(1, _LISTING),
        late=Mix(1, {"reason": 0.75, "explain": 0.1, "transfer": 0.15}, 1.0, 0.0),
        turn=600,
        wrong_share=0.3,
        direct_weight=0.4,
    ),
    large_first=LanguagePlan(
        steps=2400,
        rows=32,
        early=Mix(2, _LISTING),
        late=Mix(2, {"reason": 0.5, "explain": 0.12, "transfer": 0.38}),
        turn=500,
        peak_rate=1.6e-3,
        last_share=0.5,
    ),
    large_second=LanguagePlan(
        steps=1800,
        rows=32,
        early=_SCANNING,
        late=_SCANNING,
        peak_rate=1.6e-3,
        warmup=30,
        last_share=0.6,
    ),
    large=LanguagePlan(
        steps=4000,
        rows=32,
        early=_CHECKING,
        late=_CHECKING,
        chart_share=0.15,
        kind_weights={"count": 2.0, "compare": 2.0, "choice": 2.0, "walks": 4.0},
        peak_rate=1.2e-3,
        warmup=30,
    ),
)
"""The pair that the package carries."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the training.

    Attributes:
        makes: The file or folder that is there when the stage is done.
        needs: What other stages make for it.
        run: Does it, given the folder of all results, the path of its own, and the sizes.
        threads: CPU threads; two for a stage that no other one runs beside.
    """

    makes: str
    needs: tuple[str, ...]
    run: Callable[[Path, Path, Sizes], None]
    threads: int = 1


def _small_pool(_folder: Path, out: Path, sizes: Sizes) -> None:
    make_pool(out, sizes.small_pool, 101)


def _large_pool(_folder: Path, out: Path, sizes: Sizes) -> None:
    make_pool(out, sizes.large_pool, 202)


def _small_vision(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_small.npy")
    train_vision("small", pool, out, sizes.small_vision, 101, log)


def _large_vision(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_large.npy")
    train_vision("large", pool, out, sizes.large_vision, 202, log)


def _small_language(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_small.npy")
    train_language(folder / "vision_small", pool, out, sizes.small, 11, log)


def _large_first(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_large.npy")
    train_language(folder / "vision_large", pool, out, sizes.large_first, 21, log)


def _large_second(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_large.npy")
    train_language(folder / "large_first", pool, out, sizes.large_second, 23, log)


def _reasonings(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_large.npy")
    write_reasonings(folder / "small", pool, out, sizes.reasonings, 31, log)


def _large_language(folder: Path, out: Path, sizes: Sizes) -> None:
    pool = load_pool(folder / "pool_large.npy")
    real = load_reasonings(folder / "reasonings.pkl")
    train_language(folder / "large_second", pool, out, sizes.large, 22, log, real)


STAGES = (
    Stage("pool_small.npy", (), _small_pool),
    Stage("pool_large.npy", (), _large_pool),
    Stage("vision_small", ("pool_small.npy",), _small_vision),
    Stage("vision_large", ("pool_large.npy",), _large_vision),
    Stage("small", ("vision_small",), _small_language),
    Stage("large_first", ("vision_large",), _large_first),
    Stage("reasonings.pkl", ("small", "pool_large.npy"), _reasonings),
    Stage("large_second", ("large_first",), _large_second),
    Stage("large", ("large_second", "reasonings.pkl"), _large_language, threads=2),
)


def log(line: str) -> None:
    """One line of progress with the time of day."""
    print(time.strftime("%H:%M:%S"), line, flush=True)  # noqa: T201


def run_stage(stage: Stage, folder: Path, sizes: Sizes) -> None:
    """Run one stage in this process."""
    import torch

    torch.set_num_threads(stage.threads)
    log(f"{stage.makes}: started")
    stage.run(folder, folder / stage.makes, sizes)
    log(f"{stage.makes}: done")


def train(folder: Path, sizes: Sizes, jobs: int = 2) -> None:
    """Run the stages whose results are missing, at most `jobs` at a time, a process each.

    Args:
        folder: Where all results go.
        sizes: How much of everything.
        jobs: Stages at a time; a core each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {stage.makes for stage in STAGES if (folder / stage.makes).exists()}
    waiting = [stage for stage in STAGES if stage.makes not in done]
    running: dict[Future[None], Stage] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        while waiting or running:
            ready = [stage for stage in waiting if done.issuperset(stage.needs)]
            for stage in ready[: jobs - len(running)]:
                waiting.remove(stage)
                running[pool.submit(run_stage, stage, folder, sizes)] = stage
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                done.add(running.pop(future).makes)
