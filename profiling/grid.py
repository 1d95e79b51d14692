"""Which measurements a profile makes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_PROMPT_SIDE = 1024
"""Largest picture of Table 3's prompts; the encoder alone is measured beyond."""
_DECODE_SIDE, _DECODE_QUERY = 512, 256
"""Largest picture and question of Table 4."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured; the defaults are those of the paper's Tables 1 to 4.

    Attributes:
        image_sides: Pixels.
        query_tokens: Tokens of a prompt beside its picture.
        output_tokens: Tokens written.
        batches: Equal prompts at once.
        repeats: How often each is measured; decoding a third as often, but three times.
        warmup: Runs before that are not counted.
        longest: Seconds; what cannot be faster than that, by the floor, is skipped.
    """

    image_sides: Sequence[int] = (256, 512, 1024, 2048, 4096)
    query_tokens: Sequence[int] = (64, 256, 512)
    output_tokens: Sequence[int] = (8, 128, 256, 512)
    batches: Sequence[int] = (1,)
    repeats: int = 9
    warmup: int = 1
    longest: float = 60.0

    @property
    def decode_repeats(self) -> int:
        """How often decoding is measured: one run gives the times of all shorter outputs."""
        return min(self.repeats, max(3, self.repeats // 3))

    def queries(self, side: int) -> Sequence[int]:
        """Query tokens of the prompts with a picture of this side."""
        return self.query_tokens if side <= _PROMPT_SIDE else ()

    def outputs(self, side: int, query: int) -> list[int]:
        """Output lengths of such a prompt, ascending."""
        decoded = side <= _DECODE_SIDE and query <= _DECODE_QUERY
        return sorted(self.output_tokens) if decoded else []

    def longest_sequence(self, image_tokens: Callable[[int], int]) -> int:
        """Tokens of the longest prompt with its output.

        Args:
            image_tokens: How many a picture of a side takes.
        """
        return max(self._sequences(image_tokens))

    def _sequences(self, image_tokens: Callable[[int], int]) -> Iterator[int]:
        for side in self.image_sides:
            seen = image_tokens(side)
            # The encoder is measured with next to no query where the engine wants a prompt.
            yield seen + min(self.query_tokens)
            for query in self.queries(side):
                yield seen + query + 1 + max(self.outputs(side, query), default=0)
