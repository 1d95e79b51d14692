"""The texts around a question, by prompt style."""

from pydantic import Field, field_validator

from ..answers import AnswerType
from .frozen import Frozen


class StyleConfig(Frozen):
    """One prompt style: how a model is told to answer, and how long it may write.

    Attributes:
        instruction: The last part of the prompt. It starts with a letter, so that no tokenizer
            joins its first token with the line break that ends the shared prefix.
        max_tokens: Limit on the output, in tokens.
    """

    instruction: str = Field(min_length=1)
    max_tokens: int = Field(gt=0)

    @field_validator("instruction")
    @classmethod
    def _starts_with_a_letter(cls, value: str) -> str:
        if not value[0].isalpha():
            raise ValueError("must start with a letter, or the prompt prefix cannot be reused")
        return value


class TransferConfig(StyleConfig):
    """Reasoning transfer and two-stage: the prompt that hands a finished reasoning to a model.

    Attributes:
        instruction: Holds `{reasoning}` once, where the reasoning goes.
    """

    @field_validator("instruction")
    @classmethod
    def _holds_the_reasoning(cls, value: str) -> str:
        if value.count("{reasoning}") != 1:
            raise ValueError("must hold {reasoning} exactly once")
        return value


class PromptsConfig(Frozen):
    """Every text the graph puts around a question (the paper's prompt styles S, E and R).

    Attributes:
        system: System message, or None for none.
        choice: One line per choice, with `{letter}` and `{text}`.
        direct: Style S, answer at once.
        explain: Style E, explain, then answer.
        reason: Style R, reason step by step, then answer on a last line.
        transfer: The direct style with a finished reasoning before it.
        answer_hints: A sentence per answer type, put where an instruction holds `{hint}`; missing
            types get none.
    """

    system: str | None = None
    choice: str = "{letter}. {text}"
    direct: StyleConfig
    explain: StyleConfig
    reason: StyleConfig
    transfer: TransferConfig
    answer_hints: dict[AnswerType, str] = Field(default_factory=dict)

    @field_validator("choice")
    @classmethod
    def _shows_letter_and_text(cls, value: str) -> str:
        letter, text = "\0\1", "\2\3"
        try:
            shown = value.format(letter=letter, text=text)
        except (AttributeError, LookupError, MemoryError, OverflowError, TypeError, ValueError):
            shown = ""
        if letter not in shown or text not in shown:
            raise ValueError("must hold {letter} and {text}, and no other braces than {{ and }}")
        return value
