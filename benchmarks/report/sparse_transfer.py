"""Table 9's form: what sparse transfer hands over, and what the answers are worth."""

from collections.abc import Mapping, Sequence

from ...configs import SparseTransfer
from ...nodes.state import Selection
from ..estimates import mean
from ..evaluation.variants import Variant
from .evaluated import Evaluated
from .table import Cell, Table, percent

_NOTE = (
    "Tokens are means over the reasonings that were handed over, counted by the model that reads "
    "them; in the row of a full transfer, those of the same reasonings as a whole."
)


def sparse_transfer(runs: Sequence[Evaluated], protocol: str) -> Table:
    """Table 9: transferred tokens and score by layer, between no transfer and a full one.

    Args:
        runs: The evaluations; each strategy with sparse transfer is a row.
        protocol: Whose scores are shown.
    """
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        variants = sorted(map(Variant.read, run.results), key=_order)
        sparse = [one for one in variants if one.sparse is not None]
        if not sparse:
            continue
        if run.results.get("large_direct"):
            none = (run.benchmark.name, "large_direct", None, "nothing", None, None, None, None)
            rows.append((*none, percent(run.score("large_direct", protocol))))
        rows += [_sparse_row(run, one, protocol) for one in sparse]
        whole = {one.strategy: one for one in sparse if run.results.get(one.strategy)}
        rows += [_full_row(run, one, protocol) for one in whole.values()]
    return Table(
        "sparse_transfer",
        f"Sparse transfer, {protocol}: tokens handed over, their % of the reasoning and of the "
        "attention on it, score (Table 9)",
        (
            "benchmark",
            "strategy",
            "layer",
            "kept",
            "by",
            "tokens",
            "% of all",
            "attention",
            "score",
        ),
        tuple(rows),
        scale=1.0,
        notes=(_NOTE,) if rows else (),
    )


def _sparse_row(run: Evaluated, variant: Variant, protocol: str) -> tuple[Cell, ...]:
    found = selections(run, variant.name)
    clusters, made = run.clusters(list(found)), list(found.values())
    parts = [one["kept_tokens"] / max(1, one["reasoning_tokens"]) for one in made]
    held = [one["reached"] for one in made if one["reached"] is not None]
    sparse = variant.sparse or SparseTransfer()
    read = {sparse.layer, *(one["layer"] for one in made)}
    layers = sorted(layer for layer in read if layer is not None)
    return (
        run.benchmark.name,
        variant.strategy,
        ", ".join(f"L{layer}" for layer in layers) or None,
        f"{100 * sparse.share:g}%",
        sparse.keep,
        mean([float(one["kept_tokens"]) for one in made], clusters),
        percent(mean(parts, clusters)),
        percent(mean(held, clusters if len(held) == len(made) else None)),
        percent(run.score(variant.name, protocol)),
    )


def _full_row(run: Evaluated, variant: Variant, protocol: str) -> tuple[Cell, ...]:
    found = selections(run, variant.name)
    tokens = mean(
        [float(one["reasoning_tokens"]) for one in found.values()], run.clusters(list(found))
    )
    score = percent(run.score(variant.strategy, protocol))
    return (run.benchmark.name, variant.strategy, None, "full", None, tokens, None, None, score)


def selections(run: Evaluated, strategy: str) -> Mapping[str, Selection]:
    """What a strategy selected of each reasoning that it handed over, by question id."""
    return {
        one: call["selection"]
        for one, result in run.results.get(strategy, {}).items()
        for call in result["calls"]
        if "selection" in call
    }


def _order(variant: Variant) -> tuple[str, int, float, str]:
    sparse = variant.sparse
    if sparse is None:
        return variant.strategy, 0, 0.0, ""
    return variant.strategy, sparse.layer or 0, sparse.share, sparse.keep
