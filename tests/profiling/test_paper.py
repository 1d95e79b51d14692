"""The paper's totals from its own tables, and where they contradict each other."""

from dataclasses import replace

import pytest

from langgraph_mai.profiling.paper import (
    compare_decoding,
    compare_totals,
    contradictions,
    paper_latencies,
    paper_workloads,
)
from langgraph_mai.profiling.totals import total_seconds

COMPARED = {row.benchmark: row for row in compare_totals()}


def test_full_transfer_totals_of_four_sets_and_popes_speedup_are_the_papers():
    for name in ("POPE", "MMBench", "ChartQA", "InfoVQA"):
        row = COMPARED[name]
        assert row.full_transfer == pytest.approx(row.paper_full_transfer, rel=0.02)
    assert COMPARED["POPE"].speedup == pytest.approx(COMPARED["POPE"].paper_speedup, rel=0.01)


def test_reasonings_of_the_implied_length_give_the_published_mai_total():
    for workload in paper_workloads():
        row = COMPARED[workload.name]
        length = row.implied_ratio * workload.reasoning(None)
        longer = replace(workload, reason_tokens={"reasoned": length, "transferred": length})
        predicted = total_seconds("mai", longer, paper_latencies())
        assert predicted == pytest.approx(row.paper_mai, rel=0.01)


def test_overlap_without_a_lower_bound_gives_the_speedups_computed_by_hand():
    by_hand = {"POPE": 14.7, "MMBench": 6.9, "ChartQA": 3.3, "InfoVQA": 2.4, "MMMU": 2.0}
    for name, speedup in by_hand.items():
        assert COMPARED[name].overlapped_speedup == pytest.approx(speedup, rel=0.02)


def test_speculative_decoding_slows_the_paper_down_as_its_accept_rate_predicts():
    plain, speculative = compare_decoding()
    assert (plain.strategy, speculative.strategy) == ("large_reason", "speculative")
    assert speculative.speedup == pytest.approx(speculative.paper_speedup, rel=0.05)
    assert speculative.speedup < 1


def test_figures_that_contradict_each_other_are_named():
    totals = [line for line in contradictions() if "full-transfer total of" in line]
    assert [line.split(":")[0] for line in totals] == ["MMMU", "RealWorldQA"]
    text = "\n".join(contradictions())
    assert "MMBench: the routes of Table 10 add up to 4328 of 4329." in text
    assert "MMMU: 498 questions agree directly by Table 10, 475 by Table 15." in text
    assert "ChartQA: Qwen3-VL-2B in style R scores 83.72 in Table 7, 72.2 in Table 8." in text
    assert "POPE: 8507" not in text
    assert "ChartQA: the large model's reasoning takes 27,195 s (Table 12), +74% from" in text
