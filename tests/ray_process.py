"""A process with a Ray of its own, in which tests run `mai`.

Ray warns of its own code, prints where it likes, and ends a process that it finds no way on for.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # else Ray leaves a token in the home
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}

Done = tuple[int, str, str]
"""Exit code, standard output, standard error."""


@contextmanager
def ray_process() -> Iterator[Callable[..., Done]]:
    """Runs `mai` with the words that it is given; evaluations start no Ray then."""
    with ProcessPoolExecutor(1, get_context("spawn"), _start_ray) as pool:
        yield lambda *words: pool.submit(_mai, words).result(timeout=900)
        pool.submit(_stop_ray).result(timeout=60)


def _start_ray() -> None:
    os.environ |= ENVIRONMENT
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)


def _mai(words: tuple[str, ...]) -> Done:
    from typer.testing import CliRunner

    from langgraph_mai.tools.cli import app

    done = CliRunner().invoke(app, words)
    return done.exit_code, done.stdout, done.stderr


def _stop_ray() -> None:
    import ray

    ray.shutdown()
