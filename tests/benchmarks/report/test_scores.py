"""Scores of a report: the metrics' figures, and one interval of each wherever it stands."""

from dataclasses import replace

import pandas as pd
import pytest

from langgraph_mai.benchmarks.metrics import PROTOCOLS, headline
from langgraph_mai.benchmarks.metrics import score as metric_scores
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion
from langgraph_mai.benchmarks.report.evaluated import Evaluated, grade, score
from langgraph_mai.benchmarks.report.tables import tables
from langgraph_mai.benchmarks.statistics import Estimate, wilson

from .conftest import staged_results, write_evaluation

OUTPUTS = [
    "yes", "no", "Yes, it is.", "maybe", "no", "yes", "", "No.", "4", "about 4.1", "A", "(A)",
]  # fmt: skip
METRICS = ("pope", "accuracy", "chartqa", "infovqa", "mmmu", "realworldqa")


def question(metric: str, number: int, images: int) -> BenchmarkQuestion:
    yes_no, choice = metric == "pope", metric in ("mmmu", "realworldqa")
    answer = "A" if choice else ("yes" if number % 2 else "no") if yes_no else "4"
    return BenchmarkQuestion(
        id=str(number),
        question="Is there a star?" if yes_no else "How many stars are there?",
        images=(f"{number % images}.png",),
        answers=(answer,),
        choices=("4", "5") if choice else (),
        answer_type="yes_no" if yes_no else "choice" if choice else "number",
    )


def seen(benchmark: Benchmark, texts: dict[str, str], protocol: str) -> Estimate:
    rows = grade(benchmark, pd.Series(texts))
    rows["image"] = [one.images for one in benchmark.questions]
    return score(benchmark, rows, protocol)


def by_question(benchmark: Benchmark, texts: dict[str, str]) -> dict[str, Estimate]:
    figure = headline(benchmark.metric)
    return {one.protocol: one for one in metric_scores(benchmark, texts) if one.metric == figure}


@pytest.mark.parametrize("metric", METRICS)
def test_a_score_is_that_of_the_metrics_and_no_surer(metric):
    for images in (3, 60):
        questions = tuple(question(metric, number, images) for number in range(60))
        texts = {one.id: OUTPUTS[int(one.id) * 7 % len(OUTPUTS)] for one in questions}
        benchmark = Benchmark(name=metric, questions=questions, prompts="default", metric=metric)
        expected = by_question(benchmark, texts)
        for protocol in PROTOCOLS:
            found = seen(benchmark, texts, protocol)
            if protocol not in expected:
                assert found.value is None
                continue
            other = expected[protocol]
            assert found.value == pytest.approx(other.value)
            assert found.low <= other.low + 1e-9
            assert other.high - 1e-9 <= found.high
            if images == len(questions):
                assert (found.low, found.high) == pytest.approx((other.low, other.high))


def test_pope_without_hits_or_without_anything_to_find():
    questions = tuple(question("pope", number, 4) for number in range(0, 20, 2))  # all are no
    benchmark = Benchmark(name="pope", questions=questions, prompts="pope", metric="pope")
    for output in ("yes", "no"):
        texts = {one.id: output for one in questions}
        expected = by_question(benchmark, texts)
        for protocol in PROTOCOLS:
            found = seen(benchmark, texts, protocol)
            assert found.value == expected[protocol].value
            assert (found.questions, found.clusters) == (10, 2)
            assert found.high is None or found.high > expected[protocol].high - 1e-9


def test_few_images_never_make_a_report_sure(ten):
    run = Evaluated.read(ten)  # ten questions about two images
    for table in tables([run], []):
        if table.name in ("output_tokens", "outputs", "times"):
            continue
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                if isinstance(cell, Estimate) and cell.value is not None and column != "time":
                    assert cell.high - cell.low > 0.2, (table.name, column)
                    assert cell.clusters <= 2
    low, high = wilson(8, 10)
    found = run.score("mai", "typed")
    assert found.low < low < high < found.high


def test_one_figure_has_one_interval_everywhere(tmp_path):
    run = Evaluated.read(write_evaluation(tmp_path / "staged", staged_results(), timed=False))
    cells = {
        (table.name, row[1] if table.name == "routes" else None, column): cell
        for table in tables([run], [])
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
    }
    score_of_mai = run.score("mai", "typed")
    assert cells["mai", None, "MAI"] == score_of_mai
    assert cells["two_stage_verification", None, "R score"] == score_of_mai
    transfer = cells["reasoning_transfer", None, "large + small R"]
    assert cells["mai", None, "full transfer"] == transfer
    right = cells["routes", "direct", "accuracy"]
    wrong = cells["routes", "direct", "agreement wrong"]
    assert replace(wrong, value=0, low=0, high=0) == replace(right, value=0, low=0, high=0)
    assert (1 - wrong.high, 1 - wrong.low) == pytest.approx((right.low, right.high))
