"""Typed answers: reading model outputs as values, and comparing them."""

from .answer import Answer, Verdict, agree, parse
from .questions import AnswerType, infer_answer_type, split_choices

__all__ = [
    "Answer",
    "AnswerType",
    "Verdict",
    "agree",
    "infer_answer_type",
    "parse",
    "split_choices",
]
