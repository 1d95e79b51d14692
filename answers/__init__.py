"""Typed answers: reading model outputs as values, and comparing them."""

from .answer import Answer, AnswerType, Verdict
from .compare import agree
from .parse import parse
from .question_type import infer_answer_type, split_choices

__all__ = [
    "Answer",
    "AnswerType",
    "Verdict",
    "agree",
    "infer_answer_type",
    "parse",
    "split_choices",
]
