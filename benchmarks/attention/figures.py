"""What measured passes say together: figures by question, layer and head, with intervals."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from ...nodes.sparse_transfer import count_tokens, smallest_set
from ..estimates import Estimate, mean, share
from ..question import BenchmarkQuestion
from .measure import SOURCES, Reading, Source
from .measured_pass import MeasuredPass
from .token_figures import Overlap, overlap, selected_texts, text_shares, top

TOP_TOKENS = 15


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One reasoning at one layer, in the mean over heads.

    Attributes:
        id: The question's.
        source: Who reasoned.
        layer: 1 for the first.
        tokens: Tokens of the reasoning, as the reader counts them.
        total: The share of the layer's attention that they get together.
        needed: How many of them hold the share of that.
        overlap: What the tokens selected here have in common with those selected from the other
            model's reasoning on the same question; "first" is this one. None without that one.
    """

    id: str
    source: Source
    layer: int
    tokens: int
    total: float
    needed: int
    overlap: Overlap | None


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """A layer in the mean over heads and questions.

    Attributes:
        total: The share of the layer's attention on the reasoning.
        needed: How many tokens hold the share of that.
        needed_share: Which share of the reasoning's tokens those are.
    """

    total: Estimate
    needed: Estimate
    needed_share: Estimate


@dataclass(frozen=True, slots=True)
class OverlapFigures:
    """What is selected of both reasonings, in the mean over questions that have both.

    Attributes:
        jaccard: Shared token texts over all of both.
        of_small: Shared ones over those selected from the small model's reasoning.
        of_large: Shared ones over those selected from the large model's.
    """

    jaccard: Estimate
    of_small: Estimate
    of_large: Estimate


@dataclass(frozen=True, slots=True)
class TokenFigures:
    """A token text at a layer.

    Attributes:
        text: The text.
        share: The share of the reasoning's attention on it, all its places together, in the mean
            over questions; a question without it counts as 0.
        found: In how many questions' reasonings it is.
    """

    text: str
    share: Estimate
    found: int


@dataclass(frozen=True)
class AttentionFigures:
    """The figures of a set of readings; questions about one image count together.

    Attributes:
        readings: What was read; layers and heads are the same in all.
        share: Share of the attention that selected tokens hold.
    """

    readings: Sequence[Reading]
    share: float
    _known: dict[tuple[str, int, int], LayerFigures] = field(default_factory=dict)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers, 1 for the first."""
        return self.readings[0].measured.layers if self.readings else ()

    @property
    def heads(self) -> int:
        """Heads of a layer; 0 if single heads are not known."""
        known = self.readings and self.readings[0].measured.head_totals
        return len(known[0]) if known else 0

    @cached_property
    def rows(self) -> list[LayerRow]:
        """By question, source and layer."""
        found: dict[tuple[str, Source, int], LayerRow] = {}
        for one, layer in product(self._questions, self.layers):
            found |= {(one, row.source, layer): row for row in self._compared(one, layer)}
        return [
            found[one.question.id, one.source, layer]
            for one in self.readings
            for layer in self.layers
        ]

    def layer(self, source: Source, layer: int) -> LayerFigures:
        """A layer's figures for the reasonings of one model."""
        key = source, layer, 0
        if key not in self._known:
            self._known[key] = self._layer(source, layer)
        return self._known[key]

    def head(self, source: Source, layer: int, head: int) -> LayerFigures:
        """A single head's figures.

        Args:
            source: Whose reasonings.
            layer: 1 for the first.
            head: 1 for the first.
        """
        key = source, layer, head
        if key not in self._known:
            self._known[key] = self._head(source, self.layers.index(layer), head - 1)
        return self._known[key]

    def overlap(self, layer: int) -> OverlapFigures:
        """What is selected at a layer from both models' reasonings."""
        return self._overlaps(
            (self._questions[row.id], row.overlap)
            for row in self.rows
            if (row.source, row.layer) == ("small", layer)
        )

    @cached_property
    def whole_overlap(self) -> OverlapFigures:
        """The same of the whole reasonings, without any selection: what to compare it with."""
        return self._overlaps(
            (one.question, overlap(*map(_all_texts, (one, two)))) for one, two in self._pairs
        )

    @cached_property
    def alike(self) -> Estimate:
        """On which share of the questions both models wrote the same reasoning."""
        same = [float(one.measured.reasoning == two.measured.reasoning) for one, two in self._pairs]
        return share(same, [self._cluster(one.question) for one, _ in self._pairs])

    def top_tokens(self, source: Source, layer: int, count: int = TOP_TOKENS) -> list[TokenFigures]:
        """The token texts with most attention at a layer, in the mean over questions."""
        chosen = self.of(source)
        shares = [text_shares(one.measured.reasoning, one.measured.pieces(layer)) for one in chosen]
        clusters = [self._cluster(one.question) for one in chosen]
        return [
            TokenFigures(
                text,
                mean([one.get(text, 0.0) for one in shares], clusters),
                sum(text in one for one in shares),
            )
            for text in top(_means(shares), count)
        ]

    def tokens(self, source: Source) -> Estimate:
        """How many tokens one model's reasonings have."""
        chosen = self.of(source)
        return mean(
            [float(_tokens(one.measured)) for one in chosen],
            [self._cluster(one.question) for one in chosen],
        )

    def of(self, source: Source) -> list[Reading]:
        """The readings of one model's reasonings."""
        return [one for one in self.readings if one.source == source]

    @property
    def sources(self) -> list[Source]:
        """Whose reasonings were read."""
        return [source for source in SOURCES if self.of(source)]

    @cached_property
    def _questions(self) -> Mapping[str, BenchmarkQuestion]:
        return {one.question.id: one.question for one in self.readings}

    @cached_property
    def _by_source(self) -> Mapping[tuple[str, Source], Reading]:
        return {(one.question.id, one.source): one for one in self.readings}

    @cached_property
    def _pairs(self) -> list[tuple[Reading, Reading]]:
        """The questions of which both reasonings were read."""
        return [
            (one, self._by_source[one.question.id, "large"])
            for one in self.of("small")
            if (one.question.id, "large") in self._by_source
        ]

    def _layer(self, source: Source, layer: int) -> LayerFigures:
        rows = [one for one in self.rows if (one.source, one.layer) == (source, layer)]
        clusters = [self._cluster(self._questions[one.id]) for one in rows]
        return LayerFigures(
            mean([one.total for one in rows], clusters),
            mean([float(one.needed) for one in rows], clusters),
            mean([one.needed / one.tokens for one in rows], clusters),
        )

    def _head(self, source: Source, layer: int, head: int) -> LayerFigures:
        chosen = self.of(source)
        clusters = [self._cluster(one.question) for one in chosen]
        needed = [one.measured.head_tokens[layer][head] for one in chosen]
        tokens = [_tokens(one.measured) for one in chosen]
        return LayerFigures(
            mean([one.measured.head_totals[layer][head] for one in chosen], clusters),
            mean(needed, clusters),
            mean([some / of for some, of in zip(needed, tokens, strict=True)], clusters),
        )

    def _cluster(self, question: BenchmarkQuestion) -> Hashable:
        return question.images or (question.id,)

    def _compared(self, question: str, layer: int) -> list[LayerRow]:
        """The rows of a question's reasonings at a layer; two are compared with each other."""
        found = [
            self._by_source[question, source]
            for source in SOURCES
            if (question, source) in self._by_source
        ]
        pieces = [one.measured.pieces(layer) for one in found]
        kept = [smallest_set(of, self.share) for of in pieces]
        texts = [
            selected_texts(one.measured.reasoning, of, numbers)
            for one, of, numbers in zip(found, pieces, kept, strict=True)
        ]
        others = [overlap(*texts), overlap(*texts[::-1])] if len(texts) == 2 else [None]
        return [
            LayerRow(
                id=question,
                source=one.source,
                layer=layer,
                tokens=sum(piece.tokens for piece in of),
                total=one.measured.total(layer),
                needed=count_tokens(of, numbers),
                overlap=both,
            )
            for one, of, numbers, both in zip(found, pieces, kept, others, strict=True)
        ]

    def _overlaps(
        self, found: Iterable[tuple[BenchmarkQuestion, Overlap | None]]
    ) -> OverlapFigures:
        known = [(one, both) for one, both in found if both is not None]
        clusters = [self._cluster(one) for one, _ in known]
        return OverlapFigures(
            mean([both.jaccard for _, both in known], clusters),
            mean([both.of_first for _, both in known], clusters),
            mean([both.of_second for _, both in known], clusters),
        )


def _tokens(measured: MeasuredPass) -> int:
    return sum(piece.tokens for piece in measured.pieces(measured.layers[0]))


def _all_texts(one: Reading) -> Counter[str]:
    pieces = one.measured.pieces(one.measured.layers[0])
    return selected_texts(one.measured.reasoning, pieces, range(len(pieces)))


def _means(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in shares:
        for text, held in one.items():
            sums[text] = sums.get(text, 0.0) + held
    return {text: one / len(shares) for text, one in sums.items()}
