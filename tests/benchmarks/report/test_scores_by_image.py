"""Scores of a report: the metrics' figures, and one interval of each wherever it stands."""

import pytest

from langgraph_mai.benchmarks.estimates import Estimate
from langgraph_mai.benchmarks.metrics import score
from langgraph_mai.benchmarks.metrics.intervals import wilson
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion
from langgraph_mai.benchmarks.report.by_image import score_by_image
from langgraph_mai.benchmarks.report.cascade import cascade
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.tables import tables

from .conftest import call, cascade_result, result, write_evaluation

SAID = ["yes", "no", "Yes, it is.", "maybe", "no", "yes", "", "No.", "4", "about 4.1", "A", "(A)"]
FIGURES = {
    "pope": "f1",
    "accuracy": "accuracy",
    "chartqa": "relaxed_accuracy",
    "infovqa": "anls",
    "mmmu": "accuracy",
    "realworldqa": "accuracy",
}
PROTOCOLS = ("typed", "strict", "vlmevalkit", "lmms")


def asked(metric: str, number: int, pictures: int) -> BenchmarkQuestion:
    yes_no, choice = metric == "pope", metric in ("mmmu", "realworldqa")
    answer = "A" if choice else ("yes" if number % 2 else "no") if yes_no else "4"
    return BenchmarkQuestion(
        id=str(number),
        question="Is there a star?" if yes_no else "How many stars are there?",
        images=(f"{number % pictures}.png",),
        answers=(answer,),
        choices=("4", "5") if choice else (),
        answer_type="yes_no" if yes_no else "choice" if choice else "number",
    )


@pytest.mark.parametrize("pictures", [3, 60])
@pytest.mark.parametrize("metric", FIGURES)
def test_a_score_is_that_of_the_metrics_and_no_surer(metric, pictures):
    questions = tuple(asked(metric, number, pictures) for number in range(60))
    texts = {one.id: SAID[int(one.id) * 7 % len(SAID)] for one in questions}
    benchmark = Benchmark(name=metric, questions=questions, prompts="default", metric=metric)
    clusters = [one.images for one in questions]
    expected = {
        one.protocol: one for one in score(benchmark, texts) if one.metric == FIGURES[metric]
    }
    for protocol in PROTOCOLS:
        seen = score_by_image(FIGURES[metric], metric, protocol, questions, texts, clusters)
        if protocol not in expected:
            assert seen.value is None
            continue
        by_question = expected[protocol]
        assert seen.value == pytest.approx(by_question.value)
        assert seen.low <= by_question.low + 1e-9
        assert by_question.high - 1e-9 <= seen.high
        if pictures == len(questions):
            assert (seen.low, seen.high) == pytest.approx((by_question.low, by_question.high))


@pytest.mark.parametrize("said", ["yes", "no"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pope_without_hits_or_without_anything_to_find(protocol, said):
    questions = tuple(asked("pope", number, 4) for number in range(0, 20, 2))  # all answers are no
    texts = {one.id: said for one in questions}
    benchmark = Benchmark(name="pope", questions=questions, prompts="pope", metric="pope")
    (expected,) = (
        one for one in score(benchmark, texts) if (one.protocol, one.metric) == (protocol, "f1")
    )
    seen = score_by_image(
        "f1", "pope", protocol, questions, texts, [one.images for one in questions]
    )
    assert seen.value == expected.value
    assert seen.high is None or seen.high > expected.high - 1e-9


def test_few_pictures_never_make_a_report_sure(ten):
    run = Evaluated.read(ten)  # ten questions about two pictures
    for table in tables([run]):
        if table.name in ("output_tokens", "outputs", "times", "token_economy"):
            continue
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                if isinstance(cell, Estimate) and cell.value is not None and column != "time":
                    assert cell.high - cell.low > 0.2, (table.name, column)
                    assert cell.clusters <= 2
    low, high = wilson(8, 10)
    seen = run.score("mai", "typed")
    assert seen.low < low < high < seen.high


def test_one_figure_has_one_interval_everywhere(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    for number in range(10):
        calls = [call("small", "reason", "Answer: no", 40), call("small", "transfer", "yes", 1)]
        results.append(result(number, "small_two_stage", "transferred", calls, "yes"))
        calls = [call("small", "reason", "Answer: no", 40), call("large", "transfer", "yes", 1)]
        results.append(result(number, "full_transfer", "transferred", calls, "yes"))
    run = Evaluated.read(write_evaluation(tmp_path / "staged", results, timed=False))
    seen = {
        (table.name, column): cell
        for table in tables([run])
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
    }
    assert (
        seen["mai", "MAI"] == seen["two_stage_verification", "R score"] == run.score("mai", "typed")
    )
    assert seen["mai", "full transfer"] == seen["reasoning_transfer", "large + small R"]
    direct = next(one for one in cascade(run).routes if one.route == "direct").accuracy
    wrong = cascade(run).agreement_wrong
    assert (1 - wrong.high, 1 - wrong.low) == pytest.approx((direct.low, direct.high))
