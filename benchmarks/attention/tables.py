"""What was measured, as tables, as flat records, and as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...configs.files import write_whole
from ..records import Record, write_records
from ..report.table import Table, percent, shown
from .figures import ALL_HEADS, FIGURES, OVERLAPS, WHOLE, AttentionFigures, Frame

SOURCE_NAMES = {"small": "large + small R", "large": "large + large R"}
"""The large model reading each model's reasoning, as the paper's 8B+2B-R and 8B+8B-R."""

_OVERLAP_NOTE = (
    "Token texts as multisets, without white space around them: a text that is selected m times "
    "from one reasoning and n times from the other is shared min(m, n) times. Jaccard is the sum "
    "of min(m, n) over the sum of max(m, n). The last row takes all tokens: what reasonings share "
    "without any selection."
)
_UNITS = {"total_attention": "share", "tokens_needed": "tokens", "share_needed": "share"}


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
    page: str,
) -> list[str]:
    """Write the figures as CSV, Markdown, JSON, plots and a page.

    Args:
        folder: Where to.
        figures: What was measured.
        title: What it was measured on, in a line.
        made: The tables.
        found: The records.
        images: PNG files by name, without ending.
        page: The page.

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
        "attention.html": page,
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
