"""Read a model's output as an answer of a given type."""

import re
from collections.abc import Sequence

from .answer import Answer
from .choices import read_choice
from .final_answer import FinalAnswer, declines, final_answer, whole_answer
from .numbers import read_number
from .plain_text import plain, sentences
from .questions import AnswerType, asks_for_identifier, split_choices
from .short_texts import compared_form, normalised, read_items, read_short_text
from .yes_no import read_yes_no

# What a number that names something is more than: "1.10", "2024/001", "12B".
_GROUPS = re.compile(r"\d[^\w\n]{1,3}\d|\d ?[A-Za-z]\b")
_SPEAKER = "A: "  # Not taken off a choice, where it is a letter.


def parse(
    text: str, answer_type: AnswerType, choices: Sequence[str] = (), question: str = ""
) -> Answer:
    """Read what a model answered, or that it did not.

    Args:
        text: The model's output, whole: with think blocks, Markdown, labels, explanations.
        answer_type: What to read it as.
        choices: The options of a choice, in the order of their letters; by default those that the
            question lists.
        question: What was asked. It tells what a bare statement is about, and whether a fraction
            stands for a percentage.

    Returns:
        An answer whose value is None where the output states no answer of this type, or more than
        one: it is empty, unfinished, a refusal, or contradicts itself.
    """
    final = whole_answer(text) if answer_type == "free_text" else final_answer(text)
    if final is None:
        return Answer(answer_type, None, text.strip())
    if answer_type == "choice":
        options = tuple(choices) or split_choices(question)[1]
        return Answer("choice", read_choice(final, options, plain(question)), final.text)
    final = FinalAnswer(final.text.removeprefix(_SPEAKER), final.marked)
    question = plain(question)
    if answer_type == "yes_no":
        return Answer("yes_no", read_yes_no(_stated(final), question), final.text)
    if answer_type == "free_text":
        described = not declines(sentences(final.text)[0])
        return Answer("free_text", normalised(final.text) if described else None, final.text)
    if declines(_stated(final)):
        return Answer(answer_type, None, final.text)
    if answer_type == "number":
        return _number(final, question)
    if answer_type == "short_text":
        value, phrase = read_short_text(final, question) or (None, final.text)
        return Answer("short_text", value, phrase)
    return _list(final, question)


def _stated(final: FinalAnswer) -> str:
    """Return the text that states the answer: all of it, or of a marked answer its first line."""
    return final.first_line if final.marked else final.text


def _number(final: FinalAnswer, question: str) -> Answer:
    stated = _stated(final)
    number = read_number(stated, question, marked=final.marked)
    if number is None or (asks_for_identifier(question) and _GROUPS.search(stated)):
        return Answer("number", None, final.text)
    return Answer("number", number.value, stated, number.unit, number.exact)


def _list(final: FinalAnswer, question: str) -> Answer:
    items = read_items(final.text)
    if items is None:
        return Answer("list", None, final.text)
    return Answer("list", tuple(compared_form(item, question) for item in items), ", ".join(items))
