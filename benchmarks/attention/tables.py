"""What was measured, as tables, flat records, files and a page; and the layers compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...configs import SparseTransfer
from ...configs.files import write_whole
from ...nodes.sparse_transfer import smallest_set
from ..evaluation.results import Result
from ..evaluation.variants import Variant
from ..question import Benchmark, BenchmarkQuestion
from ..records import Record, write_records
from ..report.evaluated import call_frame, difference, mean, result_frame, score
from ..report.page import image_uri, lettered, render
from ..report.table import Table, percent, shown
from ..statistics import Estimate
from .figures import ALL_HEADS, FIGURES, OVERLAPS, WHOLE, AttentionFigures, Frame
from .measure import Reading

SOURCE_NAMES = {"small": "large + small R", "large": "large + large R"}
"""The large model reading each model's reasoning, as the paper's 8B+2B-R and 8B+8B-R."""

_OVERLAP_NOTE = (
    "Token texts as multisets, without white space around them: a text that is selected m times "
    "from one reasoning and n times from the other is shared min(m, n) times. Jaccard is the sum "
    "of min(m, n) over the sum of max(m, n). The last row takes all tokens: what reasonings share "
    "without any selection."
)
_UNITS = {"total_attention": "share", "tokens_needed": "tokens", "share_needed": "share"}
_FULL, _PROTOCOL = "full_transfer", "typed"

_LAYERS_NOTE = (
    "Scores (%) are in the typed protocol. Differences to full transfer are paired by question, in "
    "points. Intervals are 95%, by image. Take the layer with the fewest tokens whose interval of "
    "the difference lies above what you may lose; the best layer of a sample looks better than it "
    "is, so measure the one you take on other questions."
)
_COLUMNS = {
    "tokens": "tokens",
    "share_of_tokens": "% of all",
    "score": "score",
    "minus_full_transfer": "minus full transfer",
}

QUESTIONS = 12
"""How many questions the page has, spread over the sample."""

_SCALE = 1000


def tables(figures: AttentionFigures) -> list[Table]:
    """Return Table 16's form, with intervals; and what is selected of both reasonings."""
    return [_sparsity(figures), _overlap(figures)]


def records(figures: AttentionFigures) -> list[Record]:
    """Return every mean as a record: `small.L3.total_attention`, `small.L3.H2.tokens_needed`."""
    found = [Record.of(f"{one}.tokens", count, "tokens") for one, count in figures.tokens.items()]
    for (source, layer, head), means in figures.means.items():
        name = f"{source}.L{layer}" + ("" if head == ALL_HEADS else f".H{head}")
        found += [Record.of(f"{name}.{one}", mean, _UNITS[one]) for one, mean in means.items()]
    found.append(Record.of("overlap.same_reasoning", figures.alike, "share"))
    for layer, means in figures.overlap_means.items():
        name = "whole" if layer == WHOLE else f"L{layer}"
        found += [Record.of(f"overlap.{name}.{one}", mean, "share") for one, mean in means.items()]
    return found


def write_files(
    folder: Path,
    figures: AttentionFigures,
    title: str,
    made: list[Table],
    found: list[Record],
    images: Mapping[str, bytes],
    html: str,
) -> list[str]:
    """Write the figures as CSV, Markdown, JSON, plots and a page.

    Args:
        folder: Where to.
        figures: What was measured.
        title: What it was measured on, in a line.
        made: The tables.
        found: The records.
        images: PNG files by name, without ending.
        html: The page.

    Returns:
        The names of the files.

    Raises:
        ConfigError: They cannot be written.
    """
    shown_images = [f"![{name}](attention-{name}.png)" for name in images]
    parts = [f"# {title}", *(table.markdown().strip() for table in made), *shown_images]
    contents: dict[str, Any] = {
        "attention.csv": _csv(layer_rows(figures)),
        "attention_heads.csv": _csv(head_rows(figures)),
        "top_tokens.csv": _csv(top_token_rows(figures)),
        "attention.md": "\n\n".join(parts) + "\n",
        **{f"attention-{name}.png": png for name, png in images.items()},
        "attention.html": html,
    }
    for name, content in contents.items():
        write_whole(folder / name, content)
    write_records(folder / "attention.json", found)
    return [*contents, "attention.json"]


def layer_rows(figures: AttentionFigures) -> Frame:
    """Return a row per question, source and layer, compared with the other model's reasoning."""
    overlaps = figures.overlaps[["id", "layer", *OVERLAPS]]
    rows = figures.rows[figures.rows["head"] == ALL_HEADS].merge(
        overlaps, on=["id", "layer"], how="left"
    )
    of_small = rows["source"] == "small"
    rows["selected_in_other"] = rows["of_small"].where(of_small, rows["of_large"])
    rows["other_in_selected"] = rows["of_large"].where(of_small, rows["of_small"])
    rows["tokens_needed"] = rows["tokens_needed"].astype(int)
    return rows.drop(columns=["image", "head", "of_small", "of_large"])


def head_rows(figures: AttentionFigures) -> Frame:
    """Return a row per source, layer and head: means with 95% intervals."""
    import pandas as pd

    rows = []
    for (source, layer, head), means in figures.means.items():
        if head == ALL_HEADS:
            continue
        row: dict[str, Any] = {"source": source, "layer": layer, "head": head}
        for name in FIGURES:
            row |= _ends(name, means[name])
        total = means["total_attention"]
        rows.append(row | {"questions": total.questions, "images": total.clusters})
    return pd.DataFrame(rows)


def top_token_rows(figures: AttentionFigures) -> Frame:
    """Return the token texts with most attention, by source and layer."""
    import pandas as pd

    rows = []
    for source in figures.sources:
        for layer in figures.layers:
            for rank, (text, share, found) in enumerate(figures.top_tokens(source, layer), start=1):
                row: dict[str, Any] = {"source": source, "layer": layer, "rank": rank}
                row |= {"token": text, **_ends("share", share)}
                rows.append(row | {"found_in": found, "questions": share.questions})
    return pd.DataFrame(rows)


def _sparsity(figures: AttentionFigures) -> Table:
    rows = []
    for layer in figures.layers:
        for source in figures.sources:
            total, needed, share = figures.means[source, layer, ALL_HEADS].values()
            head = f"L{layer}", SOURCE_NAMES[source]
            rows.append((*head, percent(share), needed, percent(total)))
    held = f"{100 * figures.share:g}%"
    written = ", ".join(
        f"{SOURCE_NAMES[source]} {count.value:.1f}" for source, count in figures.tokens.items()
    )
    note = (
        f"Means over questions, of {written} tokens. Weights are means over a layer's heads; total "
        "attention is the part of the whole prompt's that the reasoning gets."
    )
    return Table(
        "sparsity",
        f"Tokens of a reasoning that hold {held} of the large model's attention on it (Table 16)",
        ("layer", "source", f"tokens for {held} (%)", f"tokens for {held}", "total attention (%)"),
        rows,
        scale=1.0,
        notes=(note,),
    )


def _overlap(figures: AttentionFigures) -> Table:
    same = figures.alike
    alike = (
        f"On {shown(percent(same), scale=1.0)}% of {same.questions} questions both models wrote "
        "the same reasoning, word for word."
    )
    return Table(
        "overlap",
        "Tokens selected from the small model's reasoning and from the large model's own (%)",
        ("layer", "Jaccard", "of the small one's, shared", "of the large one's, shared"),
        [
            (
                "whole reasonings" if layer == WHOLE else f"L{layer}",
                *(percent(means[name]) for name in OVERLAPS),
            )
            for layer, means in figures.overlap_means.items()
        ],
        scale=1.0,
        notes=(_OVERLAP_NOTE, alike) if same.questions else (_OVERLAP_NOTE,),
    )


def _ends(name: str, found: Any) -> dict[str, float | None]:
    return {f"{name}_mean": found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _csv(rows: Frame) -> str:
    return str(rows.to_csv(index=False, lineterminator="\n"))


def layer_strategies(layers: Sequence[int], sparse: SparseTransfer) -> list[str]:
    """Return the strategies to run: full transfer, and sparse transfer at each layer.

    Args:
        layers: The layers, 1 for the first.
        sparse: How tokens are selected, but for the layer.
    """
    chosen = [sparse.model_copy(update={"layer": layer}) for layer in layers]
    return [_FULL, *(Variant(_FULL, one).name for one in chosen)]


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
    full = by_strategy.get(_FULL, frame[:0].set_index("question"))
    names = list(dict.fromkeys(one["strategy"] for one in results))
    any_sparse = next((name for name in names if name != _FULL), "")
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
        notes=(_LAYERS_NOTE,),
    )
    return table, records


def page(figures: AttentionFigures, title: str, layer: int) -> str:
    """Return the page's HTML; it needs no other file and no network.

    Args:
        figures: What was measured.
        title: What it was measured on, in a line.
        layer: The layer that is shown first.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    by_id: dict[str, list[Reading]] = {}
    for one in figures.readings:
        by_id.setdefault(one.question.id, []).append(one)
    whole = [found for found in by_id.values() if len(found) == len(figures.sources)]
    count = min(QUESTIONS, len(whole))
    chosen = [whole[len(whole) * number // count] for number in range(count)]
    return render(
        __package__,
        title=title,
        held=f"{100 * figures.share:g}%",
        layers=figures.layers,
        first=figures.layers.index(layer),
        scale=_SCALE,
        questions=[_question(figures, found[0].question, found) for found in chosen],
    )


def _question(
    figures: AttentionFigures, question: BenchmarkQuestion, readings: Sequence[Reading]
) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.question,
        "choices": lettered(question),
        "answers": question.answers,
        "images": list(filter(None, map(image_uri, question.images))),
        "readings": [_reading(figures, one) for one in readings],
    }


def _reading(figures: AttentionFigures, one: Reading) -> dict[str, Any]:
    """Return a reasoning as tokens, and for each layer their weights and which are kept."""
    measured, text = one.measured, one.measured.reasoning
    by_layer = [measured.groups(layer) for layer in figures.layers]
    return {
        "source": SOURCE_NAMES[one.source],
        "tokens": [text[group.start : group.end] for group in by_layer[0]],
        "weights": [
            [round(_SCALE * group.weight / (whole or 1)) for group in groups]
            for groups in by_layer
            for whole in (sum(group.weight for group in groups),)
        ],
        "kept": [smallest_set(groups, figures.share) for groups in by_layer],
        "totals": [round(_SCALE * measured.total(layer)) for layer in figures.layers],
    }
