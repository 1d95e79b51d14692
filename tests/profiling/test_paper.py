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

COMPARED = compare_totals()


def test_full_transfer_totals_of_four_sets_and_popes_speedup_are_the_papers():
    for name in ("POPE", "MMBench", "ChartQA", "InfoVQA"):
        row = COMPARED[name]
        published = row["full_transfer.published"]
        assert row["full_transfer.predicted"] == pytest.approx(published, rel=0.02)
    pope = COMPARED["POPE"]
    assert pope["speedup.predicted"] == pytest.approx(pope["speedup.published"], rel=0.01)


def test_reasonings_of_the_implied_length_give_the_published_mai_total():
    for workload in paper_workloads():
        row = COMPARED[workload.benchmark]
        length = row["reasoning_ratio.disputed"] * workload.reasoning(None)
        lengths = {f"reason_tokens_{route}": length for route in ("reasoned", "transferred")}
        predicted = total_seconds("mai", replace(workload, **lengths), paper_latencies())
        assert predicted == pytest.approx(row["mai.published"], rel=0.01)


def test_overlap_without_a_lower_bound_gives_the_speedups_computed_by_hand():
    by_hand = {"POPE": 14.7, "MMBench": 6.9, "ChartQA": 3.3, "InfoVQA": 2.4, "MMMU": 2.0}
    for name, speedup in by_hand.items():
        assert COMPARED[name]["speedup.overlapped"] == pytest.approx(speedup, rel=0.02)


def test_speculative_decoding_slows_the_paper_down_as_its_accept_rate_predicts():
    compared = compare_decoding()
    assert list(compared) == ["large_reason", "speculative"]
    row = compared["speculative"]
    assert row["speedup.predicted"] == pytest.approx(row["speedup.published"], rel=0.05)
    assert row["speedup.predicted"] < 1


def test_figures_that_contradict_each_other_are_named():
    totals = [line for line in contradictions() if "full-transfer total of" in line]
    assert [line.split(":")[0] for line in totals] == ["MMMU", "RealWorldQA"]
    text = "\n".join(contradictions())
    assert "MMBench: the routes of Table 10 add up to 4328 of 4329." in text
    assert "MMMU: 498 questions agree directly by Table 10, 475 by Table 15." in text
    assert "ChartQA: Qwen3-VL-2B in style R scores 83.72 in Table 7, 72.2 in Table 8." in text
    assert "POPE: 8507" not in text
    assert "ChartQA: the large model's reasoning takes 27,195 s (Table 12), +74% from" in text
