"""The tokens of a row, and how several rows lie side by side in one batch.

Imports torch: only modules of a loaded model import this one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .key_values import KeyValues
from .padding import Inputs
from .prompt import Prompt, picture_inputs
from .rows import Row


class TokenSequence:
    """A row's prompt and what was generated so far.

    Attributes:
        row: The row.
        tokens: Prompt and output, without padding.
        known: Keys and values of the first `computed` tokens, None if there are none.
        computed: How many tokens need not be computed again.
        generator: Where the row's draws come from; None for the likeliest token.
    """

    def __init__(self, row: Row, known: KeyValues | None = None, computed: int = 0) -> None:
        """Begin with the prompt."""
        self.row = row
        self.tokens = list(row.prompt.tokens)
        self.known = known
        self.computed = computed
        self.generator: torch.Generator | None = None
        if row.settings.temperature > 0:
            self.generator = torch.Generator().manual_seed(row.seed)
        self._before_draw: torch.Tensor | None = None

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        prompt: Prompt = self.row.prompt
        return prompt

    @property
    def remaining(self) -> int:
        """How many tokens may still be generated."""
        return self.row.limit - (len(self.tokens) - self.prompt.length)

    def draws(self) -> torch.Generator | None:
        """The generator, to draw the next token with; `rewind` undoes it until the token comes."""
        if self.generator is not None and self._before_draw is None:
            self._before_draw = self.generator.get_state()
        return self.generator

    def append(self, token: int) -> None:
        """Take the next token."""
        self.tokens.append(token)
        self._before_draw = None

    def rewind(self) -> None:
        """Undo the draw of a token that did not come, so that the next try draws the same."""
        if self.generator is not None and self._before_draw is not None:
            self.generator.set_state(self._before_draw)
        self._before_draw = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Sequences side by side: their known tokens on the left, the others on the right.

    Both parts are padded on the left, so that the known parts end in one column and the sequences
    in another. Between them a row may have padding too; its mask and positions pass over it.

    Attributes:
        inputs: What `generate` takes, but for the keys and values.
        known_width: Columns of the known tokens.
        width: Columns in all.
        columns: For every sequence, the columns of its tokens.
    """

    inputs: Inputs
    known_width: int
    width: int
    columns: list[torch.Tensor]


def lay_out(sequences: Sequence[TokenSequence], pad: int) -> Layout:
    """Put sequences side by side.

    Args:
        sequences: All with a prompt whose pictures are known one by one.
        pad: Token id to pad with.
    """
    known = max(one.computed for one in sequences)
    width = known + max(len(one.tokens) - one.computed for one in sequences)
    columns = []
    ids = torch.full((len(sequences), width), pad)
    mask = torch.zeros_like(ids)
    for at, one in enumerate(sequences):
        new = len(one.tokens) - one.computed
        own = torch.cat([torch.arange(known - one.computed, known), torch.arange(width)[-new:]])
        ids[at, own] = torch.tensor(one.tokens)
        mask[at, own] = 1
        columns.append(own)
    inputs = {"input_ids": ids, "attention_mask": mask} | _new_pictures(sequences)
    if sequences[0].prompt.positions is not None:
        positions = torch.zeros(4, len(sequences), width, dtype=torch.long)
        for at, (one, own) in enumerate(zip(sequences, columns, strict=True)):
            positions[:, at, own] = _positions(one)
        inputs["position_ids"] = positions
    return Layout(inputs, known, width, columns)


def _new_pictures(sequences: Sequence[TokenSequence]) -> Inputs:
    """The pictures whose tokens have to be computed; the vision tower does not see the others."""
    return picture_inputs(
        picture
        for one in sequences
        for picture in one.prompt.pictures
        if picture.start >= one.computed
    )


def _positions(sequence: TokenSequence) -> torch.Tensor:
    positions = sequence.prompt.positions
    if positions is None:
        raise TypeError("this model counts its positions itself")
    generated = len(sequence.tokens) - positions.shape[1]
    following = positions[:, -1:] + torch.arange(1, generated + 1)
    return torch.cat([positions, following], dim=1)
