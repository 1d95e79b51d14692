"""Score and tokens of sparse transfer by layer: which layer to select by."""

from collections.abc import Sequence

from ...configs import SparseTransfer
from ..evaluation.results import Result
from ..evaluation.variants import Variant
from ..question import Benchmark
from ..records import Record
from ..report.evaluated import call_frame, difference, mean, result_frame, score
from ..report.table import Table, percent
from ..statistics import Estimate

_STRATEGY = "full_transfer"
_PROTOCOL = "typed"

_NOTE = (
    "Scores (%) are in the typed protocol. Differences to full transfer are paired by question, in "
    "points. Intervals are 95%, by image. Take the layer with the fewest tokens whose interval of "
    "the difference lies above what you may lose; the best layer of a sample looks better than it "
    "is, so measure the one you take on other questions."
)


def layer_strategies(layers: Sequence[int], sparse: SparseTransfer) -> list[str]:
    """Return the strategies to run: full transfer, and sparse transfer at each layer.

    Args:
        layers: The layers, 1 for the first.
        sparse: How tokens are selected, but for the layer.
    """
    chosen = [sparse.model_copy(update={"layer": layer}) for layer in layers]
    return [_STRATEGY, *(Variant(_STRATEGY, one).name for one in chosen)]


def layer_table(benchmark: Benchmark, results: Sequence[Result]) -> tuple[Table, list[Record]]:
    """Compare layers by the answers after sparse transfer.

    Args:
        benchmark: The questions.
        results: The results of `layer_strategies`; failed ones are left out.

    Returns:
        A table with a row per layer, and its figures as records: `layers.L3.score`, ...
    """
    frame = result_frame(benchmark, [one for one in results if one["error"] is None])
    calls = call_frame(frame)
    by_strategy = {name: own.set_index("question") for name, own in frame.groupby("strategy")}
    full = by_strategy.get(_STRATEGY, frame[:0].set_index("question"))
    names = list(dict.fromkeys(one["strategy"] for one in results))
    any_sparse = next((name for name in names if name != _STRATEGY), "")
    rows, records = [], []
    for name in names:
        own = by_strategy.get(name, full[:0])
        sparse = Variant.read(name).sparse
        label = "full transfer" if sparse is None else f"L{sparse.layer}"
        # A full transfer's tokens are those of the same reasonings as a whole.
        own_calls = calls[calls["strategy"] == (any_sparse if sparse is None else name)]
        kept = own_calls.dropna(subset="kept_tokens")
        tokens = mean(kept, "reasoning_tokens" if sparse is None else "kept_tokens")
        kept = kept.assign(part=kept["kept_tokens"] / kept["reasoning_tokens"].clip(lower=1))
        figures: dict[str, tuple[Estimate, str]] = {
            "tokens": (tokens, "tokens"),
            "share_of_tokens": (percent(mean(kept, "part")), "%"),
            "score": (percent(score(benchmark, own, _PROTOCOL)), "%"),
            "minus_full_transfer": (percent(difference(own, full, _PROTOCOL)), "points"),
        }
        if sparse is None:
            del figures["share_of_tokens"], figures["minus_full_transfer"]
        rows.append((label, *(figures[key][0] if key in figures else None for key in _COLUMNS)))
        where = label.replace(" ", "_")
        records += [
            Record.of(f"layers.{where}.{key}", found, unit)
            for key, (found, unit) in figures.items()
            if found.value is not None
        ]
    table = Table(
        "layers",
        f"Sparse transfer by layer: {len(full)} questions (Table 9)",
        ("layer", *_COLUMNS.values()),
        rows,
        scale=1.0,
        notes=(_NOTE,),
    )
    return table, records


_COLUMNS = {
    "tokens": "tokens",
    "share_of_tokens": "% of all",
    "score": "score",
    "minus_full_transfer": "minus full transfer",
}
