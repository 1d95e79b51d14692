"""What measured passes say together: figures by question, layer and head, with intervals."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..estimates import Estimate, mean, share
from ..question import BenchmarkQuestion
from .measure import SOURCES, Reading, Source
from .measured_pass import MeasuredPass, tokens_needed
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
        return [self._row(one, layer) for one in self.readings for layer in self.layers]

    def layer(self, source: Source, layer: int) -> LayerFigures:
        """A layer's figures for the reasonings of one model."""
        rows = [one for one in self.rows if (one.source, one.layer) == (source, layer)]
        clusters = [self._cluster(self._questions[one.id]) for one in rows]
        return LayerFigures(
            mean([one.total for one in rows], clusters),
            mean([float(one.needed) for one in rows], clusters),
            mean([one.needed / one.tokens for one in rows], clusters),
        )

    def head(self, source: Source, layer: int, head: int) -> LayerFigures:
        """A single head's figures.

        Args:
            source: Whose reasonings.
            layer: 1 for the first.
            head: 1 for the first.
        """
        chosen, at = self.of(source), self.layers.index(layer)
        clusters = [self._cluster(one.question) for one in chosen]
        needed = [one.measured.head_tokens[at][head - 1] for one in chosen]
        tokens = [_tokens(one.measured) for one in chosen]
        return LayerFigures(
            mean([one.measured.head_totals[at][head - 1] for one in chosen], clusters),
            mean(needed, clusters),
            mean([some / of for some, of in zip(needed, tokens, strict=True)], clusters),
        )

    def overlap(self, layer: int) -> OverlapFigures:
        """What is selected at a layer from both models' reasonings."""
        return self._overlaps([(one, self._overlap(one, layer, self.share)) for one in self._small])

    @cached_property
    def whole_overlap(self) -> OverlapFigures:
        """The same of the whole reasonings, without any selection: what to compare it with."""
        first = self.layers[0] if self.layers else 1
        return self._overlaps([(one, self._overlap(one, first, 1.0)) for one in self._small])

    @cached_property
    def alike(self) -> Estimate:
        """On which share of the questions both models wrote the same reasoning."""
        both = [
            (one, other)
            for one in self._small
            if (other := self._by_source.get((one.question.id, "large")))
        ]
        same = [float(one.measured.reasoning == two.measured.reasoning) for one, two in both]
        return share(same, [self._cluster(one.question) for one, _ in both])

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

    @property
    def _small(self) -> list[Reading]:
        return self.of("small")

    def _cluster(self, question: BenchmarkQuestion) -> Hashable:
        return question.images or (question.id,)

    def _row(self, one: Reading, layer: int) -> LayerRow:
        pieces = one.measured.pieces(layer)
        return LayerRow(
            id=one.question.id,
            source=one.source,
            layer=layer,
            tokens=sum(piece.tokens for piece in pieces),
            total=one.measured.total(layer),
            needed=tokens_needed(pieces, self.share),
            overlap=self._overlap(one, layer, self.share),
        )

    def _overlap(self, one: Reading, layer: int, share: float) -> Overlap | None:
        other = self._by_source.get((one.question.id, _other(one.source)))
        if other is None:
            return None
        first, second = (
            selected_texts(each.measured.reasoning, each.measured.pieces(layer), share)
            for each in (one, other)
        )
        return overlap(first, second)

    def _overlaps(self, found: Iterable[tuple[Reading, Overlap | None]]) -> OverlapFigures:
        known = [(one, both) for one, both in found if both is not None]
        clusters = [self._cluster(one.question) for one, _ in known]
        return OverlapFigures(
            mean([both.jaccard for _, both in known], clusters),
            mean([both.of_first for _, both in known], clusters),
            mean([both.of_second for _, both in known], clusters),
        )


def _tokens(measured: MeasuredPass) -> int:
    return sum(piece.tokens for piece in measured.pieces(measured.layers[0]))


def _other(source: Source) -> Source:
    return "large" if source == "small" else "small"


def _means(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in shares:
        for text, held in one.items():
            sums[text] = sums.get(text, 0.0) + held
    return {text: one / len(shares) for text, one in sums.items()}
