"""Our reading of the reference cases against a person's, per kind and benchmark."""

import json
from collections import Counter
from pathlib import Path

import pytest

from langgraph_mai.answers import agree, parse

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "answers_cases.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
ANSWER_TYPES = {
    "POPE": "yes_no",
    "MMMU": "choice",
    "MMBench": "choice",
    "RealWorldQA": "choice",
    "ChartQA": "short_text",
    "InfoVQA": "short_text",
}
# The pairs of ChartQA and InfoVQA come without their question. A percent sign in one of the two
# answers tells that it asked for a share.
QUESTION_FOR_PERCENTAGES = "What share is it?"

KNOWN_MISSES = {
    "s-pope-0029": "Asked for a pizza, 'A person is standing near the door.' affirms no pizza.",
    "s-chartqa-0554": "100 and 95: within 5%, but two answers agree only on the same number.",
    "s-chartqa-0555": "57 and 60: within 5%, but two answers agree only on the same number.",
}
OPEN_TO_ARGUMENT = {
    "s-chartqa-0553": "100 and 105: we say disagree (two whole numbers).",
    "s-chartqa-0569": "[Japan, China] and [China, Japan]: we say agree (lists have no order).",
    "s-realworldqa-0449": "2 and Two: agree.",
    "s-realworldqa-0450": "No and 'no, it is dry': disagree, read as short texts.",
    "s-realworldqa-0451": "2 and 3: disagree.",
    "s-realworldqa-0452": "Uphill and UPHILL: agree.",
    "s-realworldqa-0453": "Oak St and Elm St: disagree.",
}


def reading(case):
    """What we read: the value of an extract case, the verdict of an agree case."""
    answer_type = ANSWER_TYPES[case["benchmark"]]
    choices = case.get("options", ())
    question = case.get("question", "")
    if answer_type == "choice" and not choices:
        answer_type = "short_text"
    if case["kind"] == "extract":
        return parse(case["prediction"], answer_type, choices, question)
    if not question and any("%" in text for text in case["prediction"]):
        question = QUESTION_FOR_PERCENTAGES
    a, b = (parse(text, answer_type, choices, question) for text in case["prediction"])
    assert agree(a, b) == agree(b, a)
    return agree(a, b)


def is_as_human(case):
    read, human = reading(case), case["human"]
    if case["kind"] == "agree":
        return read == {True: "agree", False: "disagree", None: "abstain"}[human]
    if human in (None, "unknown"):
        return read.value is None
    if read.kind == "short_text":
        return agree(read, parse(human, "short_text")) == "agree"
    return read.shown == human


@pytest.mark.parametrize("kind", ["extract", "agree"])
def test_reads_as_a_person_does(kind):
    cases = [case for case in CASES if case["kind"] == kind and case["id"] not in OPEN_TO_ARGUMENT]
    given = [case for case in cases if case["human"] is not None]
    missed = {case["id"] for case in cases if not is_as_human(case)}
    right = Counter(case["benchmark"] for case in given if case["id"] not in missed)
    total = Counter(case["benchmark"] for case in given)
    figures = ", ".join(f"{name}: {right[name]} of {total[name]}" for name in total)
    assert right.total() / total.total() >= 0.97, f"{figures}; missed: {sorted(missed)}"
    assert missed <= KNOWN_MISSES.keys(), f"{figures}; missed: {sorted(missed)}"


def test_known_misses_are_still_missed():
    by_id = {case["id"]: case for case in CASES}
    read_now = [case_id for case_id in KNOWN_MISSES if is_as_human(by_id[case_id])]
    assert not read_now, "take these off the list of known misses"


def test_abstains_wherever_a_person_finds_no_answer():
    guessed = [
        case["id"]
        for case in CASES
        if case["human"] in (None, "unknown")
        and case["id"] not in OPEN_TO_ARGUMENT
        and not is_as_human(case)
    ]
    assert guessed == []
