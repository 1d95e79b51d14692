"""In which words is asked, and what a pair is called, as the commands on benchmarks have it."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..configs import load_pair_config, load_prompts

if TYPE_CHECKING:
    from ..benchmarks.question import Benchmark
    from ..configs import PromptsConfig
    from ..models.pairs import Pair


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
