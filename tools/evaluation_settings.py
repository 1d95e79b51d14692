"""Where results go and in which words is asked, as the commands on benchmarks have it."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..configs import load_pair_config, load_prompts
from ..configs.whole_files import check_folder
from .errors import UsageError

if TYPE_CHECKING:
    from ..benchmarks.question import Benchmark
    from ..configs import PromptsConfig
    from ..models.pairs import Pair


def results_folder(name: str) -> Path:
    """The folder for results; it can be written.

    Raises:
        UsageError: The home folder in it is not known.
        ConfigError: It cannot be written.
    """
    try:
        folder = Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"The home folder in {name!r} is not known; name another --out."
        ) from error
    check_folder(folder)
    return folder


def wording_of(
    prompts: str | None, pair: str, models: "Pair", benchmark: "Benchmark"
) -> "PromptsConfig":
    """What is asked for, else the pair's own wording, else the benchmark's.

    Args:
        prompts: What `--prompts` says.
        pair: What `--pair` says.
        models: The pair.
        benchmark: The questions.

    Raises:
        ConfigError: There are no such prompts.
    """
    if prompts is not None:
        return load_prompts(prompts)
    if load_pair_config(pair).prompts != "default":
        return models.prompts
    return load_prompts(benchmark.prompts)


def pair_stem(pair: str) -> str:
    """A pair's name or file as part of a folder's name."""
    return Path(pair).stem if pair.endswith((".yaml", ".yml")) else pair.replace("/", "-")
