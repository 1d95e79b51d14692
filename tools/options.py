"""What several commands share: options, where results go, which packages are there, JSON."""

import json
import os
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from ..configs import SparseTransfer, load_pair_config, load_prompts
from ..configs.files import check_folder
from .errors import UsageError

if TYPE_CHECKING:
    from ..benchmarks.question import Benchmark
    from ..configs import PromptsConfig
    from ..models.pairs import Pair

PairName = Annotated[str, typer.Option(help="A pair's name (see `mai pairs`) or file.")]
Debug = Annotated[
    bool, typer.Option("--debug", metavar="", help="Show a traceback if something fails.")
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", metavar="", help="Print JSON on standard output, and nothing else there."
    ),
]
BenchmarkName = Annotated[
    str,
    typer.Argument(
        metavar="BENCHMARK",
        help="shapes, pope, mmmu, mmbench, chartqa, infovqa, realworldqa, or own for your own "
        "questions in --data.",
    ),
]
DataFile = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="Your own questions (JSON lines), or where the benchmark's data lie.",
    ),
]
Split = Annotated[str | None, typer.Option("--split", help="Only this split of the benchmark.")]
Wording = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        help="The wording: a name in configs/prompts or a file.",
        show_default="the pair's own, else the benchmark's",
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many questions.")]
TransferOption = Annotated[
    str,
    typer.Option(
        "--transfer",
        help="What of a reasoning is read: full, or sparse (the tokens that get most attention).",
    ),
]
LayerOption = Annotated[
    list[int] | None,
    typer.Option(
        "--layer",
        help="Sparse: the layer whose attention counts, 1 for the first; evaluate: once for each.",
        show_default="the pair's",
    ),
]
ShareOption = Annotated[
    list[float] | None,
    typer.Option(
        "--share",
        help="Sparse: the share of the attention to keep; evaluate: once for each.",
        show_default="the pair's",
    ),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        help="Sparse: attention, or as many tokens by sentences, last, random or small; evaluate: "
        "once for each.",
        show_default="the pair's",
    ),
]
GateFile = Annotated[
    str | None,
    typer.Option(
        "--gate",
        metavar="FILE",
        help="What mai calibrate wrote: skip the large model where the small one is sure enough.",
        show_default="the pair's",
    ),
]
STRATEGY_NAMES = (  # those of `graph.STRATEGIES`, which would load too much for a help text
    *(
        f"{role}_{style}"
        for role in ("small", "large")
        for style in ("direct", "explain", "reason")
    ),
    *("small_two_stage", "large_two_stage", "full_transfer", "speculative", "mai"),
)
DEFAULT_STRATEGIES = ("small_direct", "large_direct", "large_reason", "mai")


def readable(text: str, what: str) -> str:
    """Return an argument as text.

    In a locale without UTF-8, and for bytes that are no text in any, Python passes arguments on
    with half characters in them.

    Args:
        text: The argument.
        what: What it is called in the error message.

    Raises:
        UsageError: It is not UTF-8 either.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(text).decode()
        except UnicodeError as error:
            raise UsageError(f"{what} {text!a} is not valid UTF-8; write it in UTF-8.") from error
    return text


def read_transfers(
    transfer: str,
    of_pair: SparseTransfer,
    *,
    layers: list[int] | None = None,
    shares: list[float] | None = None,
    keeps: list[str] | None = None,
) -> list[SparseTransfer]:
    """Return the ways of sparse transfer that the options name, in every combination.

    Args:
        transfer: "full" or "sparse".
        of_pair: How the pair selects tokens, where the options do not say.
        layers: Layers whose attention counts.
        shares: Shares of the attention to keep.
        keeps: How tokens are chosen.

    Returns:
        None of them for full transfer, else at least one.

    Raises:
        UsageError: No such transfer, values that it cannot have, or some without sparse transfer.
    """
    given = {"layer": layers, "share": shares, "keep": keeps}
    named = {name: values for name, values in given.items() if values}
    if transfer not in ("full", "sparse"):
        raise UsageError(f"--transfer is full or sparse, not {transfer!r}.")
    if transfer == "full":
        if named:
            raise UsageError(
                f"--{next(iter(named))} is for sparse transfer: add --transfer sparse, or leave "
                "it out."
            )
        return []
    own = of_pair.model_dump()
    try:
        return [
            SparseTransfer.model_validate(own | dict(zip(named, values, strict=True)))
            for values in product(*named.values())
        ]
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UsageError(
            f"--{problem['loc'][0]} cannot be {problem['input']}: {problem['msg']}."
        ) from error


def read_strategies(named: list[str] | None, sparse: list[SparseTransfer]) -> list[str]:
    """Return the names of what is evaluated: each strategy, by each way of sparse transfer.

    Args:
        named: Names of strategies, or "all"; None for the default ones.
        sparse: What `read_transfers` returned.

    Raises:
        UsageError: No such strategy, or sparse transfer where nothing is transferred.
    """
    from ..benchmarks.evaluation.results import GATED
    from ..benchmarks.evaluation.variants import Variant
    from ..graph import STRATEGIES, TRANSFER_STRATEGIES

    chosen = list(STRATEGIES) if "all" in (named or ()) else list(named or DEFAULT_STRATEGIES)
    for name in chosen:
        if name not in (*STRATEGIES, GATED):
            raise UsageError(
                f"The strategy {name!r} is unknown; use all, or some of {', '.join(STRATEGIES)}."
            )
    if sparse and not set(chosen) & set(TRANSFER_STRATEGIES):
        raise UsageError(
            "None of these strategies transfers a reasoning: leave out --transfer, or add one of "
            f"{', '.join(TRANSFER_STRATEGIES)}."
        )
    names = [
        Variant(name, way).name
        for name in chosen
        for way in (sparse if name in TRANSFER_STRATEGIES and sparse else [None])
    ]
    return list(dict.fromkeys(names))


def read_benchmark(
    name: str, data: str | None, split: str | None, limit: int | None, folder: Path
) -> "Benchmark":
    """Return the benchmark that the options name.

    Raises:
        UsageError: It has no questions, or there is no file of the user's own.
        DataError: Its data cannot be read.
    """
    if name == "own" and data is None:
        raise UsageError("Questions of your own need a file; name it with --data FILE.")
    from ..benchmarks.datasets import load_benchmark

    found = load_benchmark(name, data=data, split=split, limit=limit, folder=folder)
    if not found.questions:
        raise UsageError(f"The benchmark {name!r} has no questions here.")
    return found


def wording_of(
    prompts: str | None, pair: str, models: "Pair", benchmark: "Benchmark"
) -> "PromptsConfig":
    """Return the wording: what is asked for, else the pair's own, else the benchmark's.

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
    """Return a pair's name or file as part of a folder's name."""
    return Path(pair).stem if pair.endswith((".yaml", ".yml")) else pair.replace("/", "-")


def results_folder(name: str | Path) -> Path:
    """Return the folder for results; it can be written.

    Raises:
        UsageError: The home folder in it is not known.
        ConfigError: It cannot be written.
    """
    try:
        folder = Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"The home folder in {str(name)!r} is not known; name another --out."
        ) from error
    check_folder(folder)
    return folder


def require(*modules: str, extra: str) -> None:
    """Check that modules can be imported, without importing them.

    Raises:
        UsageError: One is missing; the message names the extra that brings it.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"This needs {', '.join(missing)}; install it with: "
            f'pip install "langgraph-mai[{extra}]"'
        )


def print_json(value: object) -> None:
    """Print a value on standard output as JSON in ASCII, which every stream and reader takes."""
    typer.echo(json.dumps(value, indent=2))
