"""Figures of a profile that cannot be: noise was larger than what was measured."""

from collections.abc import Iterator, Sequence

from .profile_rows import ProfileRow


def impossible(rows: Sequence[ProfileRow]) -> Iterator[str]:
    """Vision encoders that took longer than the first token, of which they are a part.

    Args:
        rows: What was measured and skipped.

    Yields:
        A sentence each.
    """
    first = [row for row in rows if row.component == "ttft" and row.median_ms]
    for row in rows:
        if row.component != "vision" or not row.median_ms:
            continue
        shorter = [
            one.median_ms
            for one in first
            if _cell(one) == _cell(row) and one.median_ms and one.median_ms < row.median_ms
        ]
        if shorter:
            yield (
                f"{row.model}, {row.image_side} px: the vision encoder took {row.median_ms:.1f} ms "
                f"and the first token, with it, {min(shorter):.1f} ms; the machine was too "
                "busy, or --repeats too small."
            )


def _cell(row: ProfileRow) -> tuple[str | int, ...]:
    """What both measurements have in common."""
    return (row.model, *row.settings.values(), row.batch, row.image_side)
