"""Whether the cascade pays: what is said of which figures, and on how many questions."""

from langgraph_mai.benchmarks.report.cascade import judge, verdict
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.table import NOTHING
from langgraph_mai.benchmarks.statistics import Estimate

from .conftest import reason_result, write_evaluation

PAYS = (0.3, 0.2, 0.4)
CASES = [
    ((0.0, -0.005, 0.005), PAYS, "pays", "It pays"),
    ((-0.05, -0.08, -0.02), PAYS, "trades", "that loss is worth the time"),
    ((-0.02, -0.08, 0.02), PAYS, "open", "so few questions do not tell"),
    ((0.0, 0.0, 0.0), (1.5, 1.2, 1.8), "does not pay", "It does not pay: it is no faster"),
    ((0.0, 0.0, 0.0), (1.0, 0.8, 1.2), "open", "Whether it is faster, so few questions"),
    ((0.0, 0.0, 0.0), (0.3, None, None), "open", "Whether it is faster, so few questions"),
    ((0.0, None, None), PAYS, "open", "as accurate, so few questions do not"),
    ((0.0, 0.0, 0.0), None, "open", "time both with --timed"),
    (None, None, "open", "was not evaluated beside it"),
]


def estimate(ends):
    return NOTHING if ends is None else Estimate(*ends, 10, 2)


def test_the_verdict_follows_from_both_intervals():
    for gap, time, says, words in CASES:
        found = judge(estimate(gap), estimate(time))
        assert found.says == says, words
        assert words in found.sentence


def test_the_sentence_has_its_figures_and_what_they_were_measured_on(ten, tmp_path):
    found = verdict(Evaluated.read(ten), "typed")
    assert found.says == "open"
    assert "differs by -10.0 points (" in found.sentence
    assert "on 10 questions about 2 images, and it takes 0.25" in found.sentence
    without = [reason_result(number) for number in range(10)]
    assert verdict(Evaluated.read(write_evaluation(tmp_path / "r", without)), "typed") is None
