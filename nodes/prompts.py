"""Every prompt of the graph, and of the demo pair's training, is built here.

The prefix rule: all prompts about one question start with the same bytes (system, images, question,
choices) and end with what differs (the style's instruction, or a reasoning and the direct
instruction). An engine with a prefix cache then computes the images and the question once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ..configs import PromptsConfig

Style = Literal["direct", "explain", "reason"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_REASONING = "{reasoning}"


def question_text(prompts: PromptsConfig, question: str, choices: Sequence[str] = ()) -> str:
    """Return the question and its choices: the part of the text that all prompts share.

    Ends with a line break, so that the tokens before the instruction do not depend on it.
    """
    lines = [question.strip()]
    lines += [
        prompts.choice.format(letter=letter, text=text)
        for letter, text in zip(LETTERS, choices, strict=False)
    ]
    return "\n".join(lines) + "\n"


def style_instruction(prompts: PromptsConfig, style: Style, answer_type: str) -> str:
    """Return the last part of a prompt in one style (S, E or R)."""
    return _with_hint(prompts, getattr(prompts, style).instruction, answer_type)


def schema_instruction(fields: Mapping[str, str]) -> str:
    """Return the line about the fields of an answer, which comes after any style's instruction.

    Args:
        fields: What each field holds by its name, such as {"red_stars": "number"}.
    """
    form = ", ".join(f'"{name}": {kind}' for name, kind in fields.items())
    return f"\nAnswer with JSON: {{{form}}}"


def transfer_instruction(prompts: PromptsConfig, reasoning: str, answer_type: str) -> str:
    """Return the last part of a prompt that transfers a reasoning and asks for the answer."""
    instruction = _with_hint(prompts, prompts.transfer.instruction, answer_type)
    return instruction.replace(_REASONING, reasoning.strip())


def reasoning_span(
    prompts: PromptsConfig, question: str, reasoning: str, answer_type: str
) -> tuple[int, int]:
    """Return where a reasoning stands in the text of the prompt that transfers it: (start, end).

    Args:
        prompts: The texts around a question.
        question: What `question_text` returned.
        reasoning: The reasoning.
        answer_type: What kind of answer is expected.
    """
    instruction = _with_hint(prompts, prompts.transfer.instruction, answer_type)
    start = len(question) + instruction.index(_REASONING)
    return start, start + len(reasoning.strip())


def build_messages(
    prompts: PromptsConfig, image_blocks: Sequence[dict[str, Any]], question: str, instruction: str
) -> list[BaseMessage]:
    """Return the messages of one model call.

    Args:
        prompts: The texts around the question.
        image_blocks: LangChain content blocks, one per image, in order.
        question: What `question_text` returned.
        instruction: What `style_instruction` or `transfer_instruction` returned.
    """
    content: list[str | dict[Any, Any]] = [
        *image_blocks,
        {"type": "text", "text": question + instruction},
    ]
    human = HumanMessage(content=content)
    return [SystemMessage(prompts.system), human] if prompts.system else [human]


def _with_hint(prompts: PromptsConfig, instruction: str, answer_type: str) -> str:
    hint = next((text for kind, text in prompts.answer_hints.items() if kind == answer_type), "")
    return instruction.replace("{hint}", hint).replace("  ", " ").strip()
