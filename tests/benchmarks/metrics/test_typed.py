"""Our own protocol against what a person finds right, on the outputs of the reference cases."""

import json
from pathlib import Path

import pytest

from langgraph_mai.benchmarks.metrics import grades, score
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion

CASES = [
    case
    for line in (Path(__file__).parents[2] / "data" / "score_cases.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
    for case in [json.loads(line)]
    if case["kind"] == "score" and case.get("human") is not None
]
KNOWN_MISSES = {
    "s-mmmu-0400": "12% for 0.12: the question does not say that a share is asked for.",
    "s-mmmu-0403": "'This is mitosis, not meiosis.': a text that names two is an abstention.",
    "s-chartqa-0470": "0.45 for 45%: the question does not say that a share is asked for.",
    "s-chartqa-0471": "12% for 0.12: the same.",
    "s-chartqa-0484": "3.4 billion for 3.4: the scale may stand at the chart's axis.",
    "s-chartqa-0536": "0.7 for 0.7%: taken for the same number without its sign.",
    "s-infovqa-0575": "Londn for London: typing errors are no agreement.",
    "s-infovqa-0581": "xyz for xy: the same.",
    "s-infovqa-0596": "Pari for Paris: the same.",
}


def question(case):
    options = tuple(case.get("options", ()))
    answer_type = {"POPE": "yes_no", "MMMU": "choice", "MMBench": "choice"}.get(
        case["benchmark"], "choice" if options else "short_text"
    )
    return BenchmarkQuestion(
        id="1",
        question=case.get("question", ""),
        images=(),
        answers=tuple(case["references"]),
        choices=options,
        answer_type=answer_type if options or answer_type == "yes_no" else "short_text",
    )


def grade(case):
    name = case["benchmark"].lower()
    one = Benchmark(name=name, questions=(question(case),), prompts="default", metric=name)
    return grades(one, {"1": case["prediction"]})["typed"]["1"]


def test_finds_right_what_a_person_finds_right():
    differ = {case["id"] for case in CASES if grade(case) != case["human"]}
    assert differ == KNOWN_MISSES.keys()
    assert len(CASES) == 280


def chart(text, answer):
    one = BenchmarkQuestion(
        id="1",
        question="What does the bar show?",
        images=(),
        answers=(answer,),
        answer_type="short_text",
    )
    made = Benchmark(name="chartqa", questions=(one,), prompts="default", metric="chartqa")
    values = {
        figure.protocol: figure.value
        for figure in score(made, {"1": text})
        if figure.metric == "relaxed_accuracy"
    }
    return values["typed"], values["strict"]


@pytest.mark.parametrize(
    ("text", "answer", "typed", "strict"),
    [
        ("49", "47", 1, 1),
        ("The bar shows **49**.", "47", 1, 0),
        ("2008", "2010", 0, 1),  # another year
        ("0.2", "0", 0, 0),
        ("$1,234", "1234", 1, 0),
        ("[1, 2]", "[1, 2]", 1, 1),
        ("2, 1", "[1, 2]", 1, 0),
        ("49%", "47", 1, 0),
        ("nan", "47", 0, 0),
        ("Looking at the chart, sales grew to 49 in the end.", "47", 1, 0),
    ],
)
def test_numbers_of_charts(text, answer, typed, strict):
    assert chart(text, answer) == (typed, strict)
