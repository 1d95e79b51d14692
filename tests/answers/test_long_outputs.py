"""Long outputs, as models write when they loop: time grows with length alone."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_mai.answers import agree, infer_answer_type, parse, split_choices

ANSWER_TYPES = ["yes_no", "choice", "number", "short_text", "list", "free_text"]
OPTIONS = ["red car", "blue car", "the blue car is here", "no vehicle"]
LOOPS = [
    "The image shows a kitchen counter. ", "Wait, it is 3. ", "Answer: ", "Answer: B\n",
    "the answer is ", "if the answer is ", "<think>", "<think>a</think>", "<answer>",
    '{"answer": ', "\\boxed{", "\\frac{1", "Explanation: a\n", "A ", "B, ", 'A " "', "option ",
    "yes ", "yes no ", "not ", "no ", "with no ", "there is ", "I cannot ", "the blue car ",
    "one ", "one and ", "hundred ", "is 3 ", "1 234 ", "1,234,", "1.234.", "1/", "1e",
    "1\u00d710^", "a=", "(3) 4 ", '{"answer": [', "{'answer': \"", "9", "$", "*", "_", "(", '"',
    "\\", "\n", " ", ". ", "没有", "不是", "A/B ", "BA 117 ", "(5) 1-2 ", "no, wait ", "oh, hmm, ",
    "is missing ", "> ", "No. ", "A. x\n", "(A) x (B) ", "Which? A. x B. y ", "A. x\n\n\n",
    "\\text{", "\\frac{1}{2}", "<|begin_of_box|>", "<|begin_of_box|>a<|end_of_box|>",
    "\\boxed{3}, ", "3:45 ", "p.m. ", "11 february ", "first ", "twenty-", "5 km/", "1 1/2 ",
    "a.b.", "in the image ", "两", "第3", "3只 ", "thousand, ", "point one ", "1 (1) ",
]  # fmt: skip


def seconds(loop, size, answer_type):
    """Read one loop; return the processor seconds that all of it takes."""
    output = loop * (size // len(loop) + 1)
    start = time.process_time()
    choices = OPTIONS if answer_type == "choice" else ()
    answer = parse(output, answer_type, choices, "How many red cars are there?")
    assert agree(answer, answer) == ("abstain" if answer.value is None else "agree")
    split_choices(output)
    infer_answer_type(output)
    return time.process_time() - start


def test_loops_are_read():
    slow = {
        (loop, answer_type): taken
        for loop in LOOPS
        for answer_type in ANSWER_TYPES
        if (taken := seconds(loop, 3_000, answer_type)) > 1
    }
    assert not slow


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(LOOPS), st.sampled_from(ANSWER_TYPES))
def test_time_grows_with_length_alone(loop, answer_type):
    """It takes 4 seconds at most; with the square of the length, it would take minutes."""
    assert seconds(loop, 200_000, answer_type) < 20


@pytest.mark.parametrize("answer_type", ["yes_no", "choice", "number", "short_text"])
def test_a_loop_before_the_answer_does_not_hide_it(answer_type):
    answer = {"yes_no": "yes", "choice": "B", "number": "12", "short_text": "Japan"}[answer_type]
    output = "I look at the picture once more. " * 3000 + f"\nAnswer: {answer}"
    read = parse(output, answer_type, OPTIONS if answer_type == "choice" else ())
    assert agree(read, parse(answer, answer_type)) == "agree"
