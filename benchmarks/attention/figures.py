"""What measured passes say together: frames by question, layer and head, with intervals."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...nodes.sparse_transfer import TokenGroup, count_tokens, smallest_set
from ..statistics import Estimate, mean, proportion
from .measure import SOURCES, MeasuredPass, Reading, Source

Frame = Any
"""A pandas DataFrame."""

TOP_TOKENS = 15

FIGURES = ("total_attention", "tokens_needed", "share_needed")
OVERLAPS = ("jaccard", "of_small", "of_large")

ALL_HEADS = 0
"""In the place of a head: the mean over heads."""

WHOLE = 0
"""In the place of a layer: the whole reasonings, without any selection."""


@dataclass(frozen=True, eq=False)
class AttentionFigures:
    """The figures of a set of readings; questions about one image count together.

    Attributes:
        readings: What was read, at least one; layers and heads are the same in all.
        share: Share of the attention that selected tokens hold.
    """

    readings: Sequence[Reading]
    share: float

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers, 1 for the first."""
        return self.readings[0].measured.layers

    @property
    def heads(self) -> range:
        """The heads of a layer, 1 for the first; none if single heads are unknown."""
        known = self.readings[0].measured.head_totals
        return range(1, len(known[0]) + 1 if known else 1)

    @property
    def sources(self) -> list[Source]:
        """Whose reasonings were read."""
        return [source for source in SOURCES if self.of(source)]

    def of(self, source: Source) -> list[Reading]:
        """Return the readings of one model's reasonings."""
        return [one for one in self.readings if one.source == source]

    @cached_property
    def rows(self) -> Frame:
        """A row per question, source, layer and head.

        Columns are id, image, source, layer, head (`ALL_HEADS` for their mean), tokens (of the
        reasoning, as the reader counts them), total_attention (the share of the layer's attention
        that they get together), tokens_needed (how many of them hold the share of that) and
        share_needed (of the tokens).
        """
        import pandas as pd

        rows = []
        for one in self.readings:
            measured = one.measured
            tokens = _tokens(measured.groups(measured.layers[0]))
            for number, layer in enumerate(self.layers):
                groups = measured.groups(layer)
                needed = count_tokens(groups, smallest_set(groups, self.share))
                found = [(ALL_HEADS, measured.total(layer), float(needed))]
                if measured.head_totals:
                    totals, counts = measured.head_totals[number], measured.head_tokens[number]
                    found += zip(self.heads, totals, counts, strict=True)
                rows += [
                    (one.question.id, _image(one), one.source, layer, head, tokens, total, needed)
                    for head, total, needed in found
                ]
        columns = ["id", "image", "source", "layer", "head", "tokens", *FIGURES[:2]]
        frame = pd.DataFrame(rows, columns=columns)
        return frame.assign(share_needed=frame["tokens_needed"] / frame["tokens"])

    @cached_property
    def overlaps(self) -> Frame:
        """A row per layer (`WHOLE` first) and question of which both reasonings were read.

        Columns are id, image, layer, same (whether both reasonings are the same), jaccard (shared
        token texts over all of both), of_small and of_large (shared ones over those selected from
        the small model's reasoning, and from the large model's). A text that is selected m times
        from one and n times from the other is shared min(m, n) times.
        """
        import pandas as pd

        rows = []
        large = {one.question.id: one for one in self.of("large")}
        for one in self.of("small"):
            if one.question.id not in large:
                continue
            other = large[one.question.id]
            for layer in (WHOLE, *self.layers):
                first, second = self._texts(one.measured, layer), self._texts(other.measured, layer)
                shared, either = (first & second).total(), (first | second).total()
                rows.append(
                    {
                        "id": one.question.id,
                        "image": _image(one),
                        "layer": layer,
                        "same": one.measured.reasoning == other.measured.reasoning,
                        "jaccard": shared / either if either else 1.0,
                        "of_small": shared / first.total() if first else 1.0,
                        "of_large": shared / second.total() if second else 1.0,
                    }
                )
        return pd.DataFrame(rows, columns=["id", "image", "layer", "same", *OVERLAPS])

    @cached_property
    def means(self) -> dict[tuple[Source, int, int], dict[str, Estimate]]:
        """Each of `FIGURES` in the mean over questions, by source, layer and head."""
        groups = self.rows.groupby(["source", "layer", "head"], sort=False)
        return {key: {name: _mean(own, name) for name in FIGURES} for key, own in groups}

    @cached_property
    def overlap_means(self) -> dict[int, dict[str, Estimate]]:
        """Each of `OVERLAPS` in the mean over questions, by layer, `WHOLE` last."""
        groups = dict(iter(self.overlaps.groupby("layer")))
        empty = self.overlaps[:0]
        return {
            layer: {name: _mean(groups.get(layer, empty), name) for name in OVERLAPS}
            for layer in (*self.layers, WHOLE)
        }

    @cached_property
    def alike(self) -> Estimate:
        """On which share of the questions both models wrote the same reasoning."""
        own = self.overlaps[self.overlaps["layer"] == WHOLE]
        return proportion(own["same"].astype(float).tolist(), own["image"].tolist())

    @cached_property
    def tokens(self) -> dict[Source, Estimate]:
        """How many tokens each model's reasonings have, in the mean over questions."""
        first = self.rows[(self.rows["layer"] == self.layers[0]) & (self.rows["head"] == ALL_HEADS)]
        return {one: _mean(first[first["source"] == one], "tokens") for one in self.sources}

    def top_tokens(
        self, source: Source, layer: int, count: int = TOP_TOKENS
    ) -> list[tuple[str, Estimate, int]]:
        """Return the token texts with most attention at a layer.

        Returns:
            The text; the share of the reasoning's attention on it, all its places together, in the
            mean over questions, of which one without it counts as 0; and in how many questions'
            reasonings it is.
        """
        import pandas as pd

        chosen = self.of(source)
        shares = pd.DataFrame([text_shares(one.measured, layer) for one in chosen])
        found = shares.notna().sum()
        shares = shares.fillna(0.0)
        order = sorted(shares.columns, key=lambda text: (-shares[text].sum(), text))[:count]
        images = [_image(one) for one in chosen]
        return [(text, mean(shares[text].tolist(), images), int(found[text])) for text in order]

    def _texts(self, measured: MeasuredPass, layer: int) -> Counter[str]:
        """Count the texts of the tokens that are selected at a layer."""
        groups = measured.groups(layer or measured.layers[0])
        chosen = smallest_set(groups, self.share) if layer else range(len(groups))
        return selected_texts(measured.reasoning, groups, chosen)


def token_text(reasoning: str, group: TokenGroup) -> str:
    """Return a token's text without white space around it; of white space alone, its escapes."""
    text = reasoning[group.start : group.end]
    return text.strip() or json.dumps(text)[1:-1].replace(" ", "\u2423")


def selected_texts(
    reasoning: str, groups: Sequence[TokenGroup], selected: Iterable[int]
) -> Counter[str]:
    """Count the texts of some tokens.

    Args:
        reasoning: The reasoning.
        groups: Its tokens.
        selected: Numbers of those that are selected.
    """
    return Counter(token_text(reasoning, groups[number]) for number in selected)


def text_shares(measured: MeasuredPass, layer: int) -> dict[str, float]:
    """Return the share of the reasoning's attention that each token text has.

    Returns:
        Shares by text, which add up to 1; all 0 where no token has any attention.
    """
    weights: dict[str, int] = {}
    for group in measured.groups(layer):
        text = token_text(measured.reasoning, group)
        weights[text] = weights.get(text, 0) + group.weight
    whole = sum(weights.values())
    return {text: one / whole if whole else 0.0 for text, one in weights.items()}


def _mean(rows: Frame, column: str) -> Estimate:
    return mean(rows[column].astype(float).tolist(), rows["image"].tolist())


def _image(one: Reading) -> tuple[str, ...]:
    return one.question.images or (one.question.id,)


def _tokens(groups: Sequence[TokenGroup]) -> int:
    return sum(group.tokens for group in groups)
