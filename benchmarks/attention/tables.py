"""What was measured, as tables, as flat records, and as rows for spreadsheets."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...records.record import Record
from ..estimates import Estimate
from ..report.table import Table, shown
from .figures import AttentionFigures, LayerFigures

Row = Sequence[str | int | float | None]

SOURCE_NAMES = {"small": "large + small R", "large": "large + large R"}
"""The large model reading each model's reasoning, as the paper's 8B+2B-R and 8B+8B-R."""

_OVERLAP_NOTE = (
    "Token texts as multisets, without white space around them: a text that is selected m times "
    "from one reasoning and n times from the other is shared min(m, n) times. Jaccard is the sum "
    "of min(m, n) over the sum of max(m, n). The last row takes all tokens: what reasonings share "
    "without any selection."
)

_ENDS = ("mean", "low", "high")


def tables(figures: AttentionFigures) -> list[Table]:
    """Table 16's form, with intervals; and what is selected of both reasonings."""
    return [_sparsity(figures), _overlap(figures)]


def layer_rows(figures: AttentionFigures) -> Iterator[Row]:
    """One row a question, source and layer, after a row of names."""
    yield (
        "id", "source", "layer", "tokens", "total_attention", "tokens_needed", "share_needed",
        "jaccard", "selected_in_other", "other_in_selected",
    )  # fmt: skip
    for one in figures.rows:
        both = one.overlap
        shared = (both.jaccard, both.of_first, both.of_second) if both else (None, None, None)
        needed = (one.needed, one.needed / one.tokens)
        yield (one.id, one.source, one.layer, one.tokens, one.total, *needed, *shared)


def head_rows(figures: AttentionFigures) -> Iterator[Row]:
    """One row a source, layer and head, after a row of names; means with 95% intervals."""
    names = ("total_attention", "tokens_needed", "share_needed")
    ends = [f"{name}_{end}" for name in names for end in _ENDS]
    yield ("source", "layer", "head", *ends, "questions", "images")
    for source in figures.sources:
        for layer in figures.layers:
            for head in range(1, figures.heads + 1):
                found = figures.head(source, layer, head)
                total = found.total
                values = [value for one in _estimates(found) for value in _values(one)]
                yield (source, layer, head, *values, total.questions, total.clusters)


def top_token_rows(figures: AttentionFigures) -> Iterator[Row]:
    """The token texts with most attention, by source and layer, after a row of names."""
    yield (
        "source", "layer", "rank", "token", *(f"share_{end}" for end in _ENDS), "found_in",
        "questions",
    )  # fmt: skip
    for source in figures.sources:
        for layer in figures.layers:
            for rank, one in enumerate(figures.top_tokens(source, layer), start=1):
                shares = _values(one.share)
                yield (source, layer, rank, one.text, *shares, one.found, one.share.questions)


def records(figures: AttentionFigures) -> list[Record]:
    """Every mean as a flat record: `small.L3.total_attention`, `small.L3.H2.tokens_needed`, ..."""
    found = [_record(f"{one}.tokens", figures.tokens(one), "tokens") for one in figures.sources]
    for source in figures.sources:
        for layer in figures.layers:
            found += _layer_records(f"{source}.L{layer}", figures.layer(source, layer))
            for head in range(1, figures.heads + 1):
                name = f"{source}.L{layer}.H{head}"
                found += _layer_records(name, figures.head(source, layer, head))
    found.append(_record("overlap.same_reasoning", figures.alike, "share"))
    compared = {f"L{layer}": figures.overlap(layer) for layer in figures.layers}
    for name, both in {**compared, "whole": figures.whole_overlap}.items():
        found += [
            _record(f"overlap.{name}.jaccard", both.jaccard, "share"),
            _record(f"overlap.{name}.of_small", both.of_small, "share"),
            _record(f"overlap.{name}.of_large", both.of_large, "share"),
        ]
    return found


def as_csv(rows: Iterator[Row]) -> str:
    """Rows as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _sparsity(figures: AttentionFigures) -> Table:
    rows = []
    for layer in figures.layers:
        for source in figures.sources:
            found = figures.layer(source, layer)
            rows.append(
                (
                    f"L{layer}",
                    SOURCE_NAMES[source],
                    percent(found.needed_share),
                    found.needed,
                    percent(found.total),
                )
            )
    held = f"{100 * figures.share:g}%"
    written = ", ".join(
        f"{SOURCE_NAMES[one]} {figures.tokens(one).value:.1f}" for one in figures.sources
    )
    note = (
        f"Means over questions, of {written} tokens. Weights are means over a layer's heads; total "
        "attention is the part of the whole prompt's that the reasoning gets."
    )
    return Table(
        "sparsity",
        f"Tokens of a reasoning that hold {held} of the large model's attention on it (Table 16)",
        ("layer", "source", f"tokens for {held} (%)", f"tokens for {held}", "total attention (%)"),
        tuple(rows),
        scale=1.0,
        notes=(note,),
    )


def _overlap(figures: AttentionFigures) -> Table:
    compared = [(f"L{layer}", figures.overlap(layer)) for layer in figures.layers]
    rows = [
        (name, percent(one.jaccard), percent(one.of_small), percent(one.of_large))
        for name, one in [*compared, ("whole reasonings", figures.whole_overlap)]
    ]
    same = figures.alike
    alike = (
        f"On {shown(percent(same), scale=1.0)}% of {same.questions} questions both models wrote "
        "the same reasoning, word for word."
    )
    return Table(
        "overlap",
        "Tokens selected from the small model's reasoning and from the large model's own (%)",
        ("layer", "Jaccard", "of the small one's, shared", "of the large one's, shared"),
        tuple(rows),
        scale=1.0,
        notes=(_OVERLAP_NOTE, alike) if same.questions else (_OVERLAP_NOTE,),
    )


def percent(part: Estimate) -> Estimate:
    """An estimate times 100."""
    low, value, high = (
        None if one is None else 100 * one for one in (part.low, part.value, part.high)
    )
    return replace(part, low=low, value=value, high=high)


def _layer_records(name: str, found: LayerFigures) -> list[Record]:
    return [
        _record(f"{name}.total_attention", found.total, "share"),
        _record(f"{name}.tokens_needed", found.needed, "tokens"),
        _record(f"{name}.share_needed", found.needed_share, "share"),
    ]


def _record(name: str, found: Estimate, unit: str) -> Record:
    return Record(name, found.value, unit, found.low, found.high, found.questions)


def _estimates(found: LayerFigures) -> tuple[Estimate, ...]:
    return found.total, found.needed, found.needed_share


def _values(found: Estimate) -> tuple[float | None, ...]:
    return found.value, found.low, found.high
