from dataclasses import replace

import pytest

from langgraph_mai.profiling.break_even import break_even
from langgraph_mai.profiling.paper_comparison import compare_with_paper, contradictions
from langgraph_mai.profiling.paper_decoding import compare_decoding_with_paper, decoded_workload
from langgraph_mai.profiling.paper_tables import paper_latencies, paper_workloads
from langgraph_mai.profiling.totals import total_seconds

COMPARED = {row.benchmark: row for row in compare_with_paper()}


@pytest.mark.parametrize("name", ["POPE", "MMBench", "ChartQA", "InfoVQA"])
def test_full_transfer_totals_of_four_sets_are_within_3_percent(name):
    row = COMPARED[name]
    assert row.full_transfer == pytest.approx(row.paper_full_transfer, rel=0.03)


def test_the_speedup_on_pope_is_within_1_percent():
    assert COMPARED["POPE"].speedup == pytest.approx(COMPARED["POPE"].paper_speedup, rel=0.01)


@pytest.mark.parametrize("workload", paper_workloads(), ids=lambda workload: workload.name)
def test_reasonings_of_the_implied_length_give_the_published_mai_total(workload):
    row = COMPARED[workload.name]
    length = row.implied_ratio * workload.reasoning(None)
    longer = replace(workload, reason_tokens={"reasoned": length, "transferred": length})
    predicted = total_seconds("mai", longer, paper_latencies())
    assert predicted == pytest.approx(row.paper_mai, rel=0.01)


@pytest.mark.parametrize(
    ("name", "speedup"),
    [("POPE", 14.7), ("MMBench", 6.9), ("ChartQA", 3.3), ("InfoVQA", 2.4), ("MMMU", 2.0)],
)
def test_overlap_without_a_shortest_call_gives_the_speedups_computed_by_hand(name, speedup):
    assert COMPARED[name].overlapped_speedup == pytest.approx(speedup, rel=0.02)


def test_speculative_decoding_slows_the_paper_down_as_its_accept_rate_says():
    plain, speculative = compare_decoding_with_paper()
    assert (plain.strategy, speculative.strategy) == ("large_reason", "speculative")
    assert speculative.speedup == pytest.approx(speculative.paper_speedup, rel=0.05)
    assert speculative.speedup < 1
    even = break_even(decoded_workload(), paper_latencies())
    # The small model writes 1.31 times as fast: most of its tokens would have to be kept.
    assert even.accept_rate_now == 0.6039 < even.accept_rate == pytest.approx(0.77, abs=0.01)
    assert even.against == "large_reason"


def test_the_sets_that_contradict_themselves_are_named():
    totals = [line for line in contradictions() if "full-transfer total of" in line]
    assert [line.split(":")[0] for line in totals] == ["MMMU", "RealWorldQA"]
    said = "\n".join(contradictions())
    assert "MMBench: the routes of Table 10 add up to 4328 of 4329." in said
    assert "MMMU: 498 questions agree directly by Table 10, 475 by Table 15." in said
    assert "ChartQA: Qwen3-VL-2B in style R scores 83.72 in Table 7, 72.2 in Table 8." in said
    assert "POPE: 8507" not in said
    assert "ChartQA: the large model's reasoning takes 27,195 s (Table 12), +74% from" in said
