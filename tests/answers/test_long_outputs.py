"""Outputs of 50 kB, as models write them when they loop; a slow pattern would not finish."""

import pytest

from langgraph_mai.answers import agree, parse

LENGTH = 50_000
OPTIONS = ["red car", "blue car", "the blue car is here", "no vehicle"]
LOOPS = [
    "The image shows a kitchen counter. ",
    "Wait, it is 3. ",
    "Answer: ",
    "Answer: B\n",
    "the answer is ",
    "if the answer is ",
    "<think>",
    "<think>a</think>",
    "<answer>",
    '{"answer": ',
    "\\boxed{",
    "\\frac{1",
    "Explanation: a\n",
    "A ",
    "B, ",
    'A " "',
    "option ",
    "yes ",
    "yes no ",
    "not ",
    "no ",
    "with no ",
    "there is ",
    "I cannot ",
    "the blue car ",
    "one ",
    "one and ",
    "hundred ",
    "is 3 ",
    "1 234 ",
    "1,234,",
    "1.234.",
    "1/",
    "1e",
    "1\u00d710^",
    "a=",
    "(3) 4 ",
    '{"answer": [',
    "{'answer': \"",
    "9",
    "$",
    "*",
    "_",
    "(",
    '"',
    "\\",
    "\n",
    " ",
    ". ",
    "没有",
    "不是",
    "A/B ",
    "BA 117 ",
    "(5) 1-2 ",
    "no, wait ",
    "oh, hmm, ",
    "is missing ",
    "> ",
    "No. ",
]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "answer_type", ["yes_no", "choice", "number", "short_text", "list", "free_text"]
)
def test_loops_are_read(answer_type, loop):
    output = loop * (LENGTH // len(loop))
    choices = OPTIONS if answer_type == "choice" else ()
    answer = parse(output, answer_type, choices, "How many red cars are there?")
    assert agree(answer, answer) == ("abstain" if answer.value is None else "agree")


@pytest.mark.parametrize("answer_type", ["yes_no", "choice", "number", "short_text"])
def test_a_loop_before_the_answer_does_not_hide_it(answer_type):
    answer = {"yes_no": "yes", "choice": "B", "number": "12", "short_text": "Japan"}[answer_type]
    output = "I look at the picture once more. " * 3000 + f"\nAnswer: {answer}"
    read = parse(output, answer_type, OPTIONS if answer_type == "choice" else ())
    assert agree(read, parse(answer, answer_type)) == "agree"
