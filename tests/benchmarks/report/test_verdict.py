"""Whether the cascade pays: what is said of which figures, and on how many questions."""

import pytest

from langgraph_mai.benchmarks.estimates import Estimate
from langgraph_mai.benchmarks.report.cascade import Cascade, cascade
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.verdict import verdict

from .conftest import cascade_result, write_evaluation


def said(gap, time):
    nothing = Estimate(None, None, None, 0)
    return verdict(
        Cascade(
            routes=(),
            agreement_wrong=nothing,
            reasoned_wrong=nothing,
            help=nothing,
            harm=nothing,
            differences={} if gap is None else {"large_reason": Estimate(*gap)},
            times={} if time is None else {"large_reason": Estimate(*time)},
        )
    )


@pytest.mark.parametrize(
    ("gap", "time", "says", "words"),
    [
        ((0.0, -0.005, 0.005), (0.3, 0.2, 0.4), "pays", "It pays"),
        ((-0.05, -0.08, -0.02), (0.3, 0.2, 0.4), "trades", "that loss is worth the time"),
        ((-0.02, -0.08, 0.02), (0.3, 0.2, 0.4), "open", "so few questions do not tell"),
        ((0.0, 0.0, 0.0), (1.5, 1.2, 1.8), "does not pay", "It does not pay: it is no faster"),
        ((0.0, 0.0, 0.0), (1.0, 0.8, 1.2), "open", "Whether it is faster, so few questions"),
        ((0.0, 0.0, 0.0), (0.3, None, None), "open", "Whether it is faster, so few questions"),
        ((0.0, None, None), (0.3, 0.2, 0.4), "open", "as accurate, so few questions do not"),
        ((0.0, 0.0, 0.0), None, "open", "time both with --timed"),
        (None, None, "open", "was not evaluated beside it"),
    ],
)
def test_whether_it_pays(gap, time, says, words):
    seen = said(gap and (*gap, 100), time and (*time, 100))
    assert seen.says == says
    assert words in seen.sentence


def test_accuracy_and_time_say_on_what_they_were_measured():
    seen = said((0.0, -0.005, 0.005, 500, 80), (0.3, 0.2, 0.4, 60, 3))
    assert "+0.0 points (-0.5 to +0.5) on 500 questions, and it takes 0.30" in seen.sentence
    assert "of the time on 60 questions about 3 pictures." in seen.sentence


def test_no_difference_on_few_questions_proves_little(tmp_path):
    results = [cascade_result(number) for number in range(10)]
    results += [{**one, "strategy": "large_reason"} for one in results]
    run = Evaluated.read(write_evaluation(tmp_path / "same", results))
    gap = cascade(run).differences["large_reason"]
    assert gap.value == 0
    assert gap.low == pytest.approx(-gap.high)
    assert gap.low < -0.2
    assert verdict(cascade(run)).says == "open"
