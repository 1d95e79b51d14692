"""The files of `mai attention`."""

from pathlib import Path
from typing import Any

from ...configs.files import write_whole
from ...records.record import write_records
from .figures import AttentionFigures
from .tables import as_csv, head_rows, layer_rows, records, tables, top_token_rows


def write_files(
    folder: Path, figures: AttentionFigures, title: str, images: dict[str, bytes], page: str
) -> list[Path]:
    """Write the figures.

    Args:
        folder: Where to.
        figures: What was measured.
        title: What it was measured on, in a line.
        images: PNG files by name, without ending.
        page: The page; empty for none.

    Returns:
        The files.

    Raises:
        ConfigError: They cannot be written.
    """
    shown = [f"![{name}](attention-{name}.png)" for name in images]
    parts = [f"# {title}", *(table.markdown().strip() for table in tables(figures)), *shown]
    contents: dict[str, Any] = {
        "attention.csv": as_csv(layer_rows(figures)),
        "attention_heads.csv": as_csv(head_rows(figures)),
        "top_tokens.csv": as_csv(top_token_rows(figures)),
        "attention.md": "\n\n".join(parts) + "\n",
        **{f"attention-{name}.png": png for name, png in images.items()},
        **({"attention.html": page} if page else {}),
    }
    for name, content in contents.items():
        write_whole(folder / name, content)
    write_records(folder / "attention.json", records(figures))
    return [folder / name for name in (*contents, "attention.json")]
