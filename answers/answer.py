"""What an answer is once it has been read: its kind and its value, or an abstention."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from .number_formats import format_exactly, format_number

AnswerType = Literal["yes_no", "choice", "number", "short_text", "list", "free_text"]
Verdict = Literal["agree", "disagree", "abstain"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One model output, read.

    Attributes:
        kind: The type it was read as.
        value: What it says, in a form that compares: "yes" or "no"; a choice's letter; a float; a
            normalised text; a tuple of normalised texts. None is an abstention: the output states
            no answer of this kind, or states two.
        text: The part of the output that was read, as the model wrote it.
        unit: Of a number only: "%", a currency sign or a unit of measure, "" if none was written.
        exact: Of a number only: all the digits that were written, which a float may not hold; None
            where they are no decimal (1/3). It is shown; what compares is `value`.
    """

    kind: AnswerType
    value: str | float | tuple[str, ...] | None
    text: str
    unit: str = ""
    exact: Decimal | None = field(default=None, compare=False)

    @property
    def shown(self) -> str:
        """The answer as people write it: "yes", "B", "1234", "12%", "a, b"."""
        if isinstance(self.value, float):
            if self.exact is not None:
                return format_exactly(self.exact, self.unit)
            return format_number(self.value, self.unit)
        if self.kind in ("yes_no", "choice") and isinstance(self.value, str):
            return self.value
        return self.text
