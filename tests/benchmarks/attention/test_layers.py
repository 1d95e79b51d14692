"""Sparse transfer by layer: which layer to select by."""

import pytest
from questions import benchmark, question

from langgraph_mai.benchmarks.attention.tables import layer_strategies, layer_table
from langgraph_mai.configs import SparseTransfer

QUESTIONS = tuple(question(number, images=(f"{number}.png",)) for number in range(40))
BENCHMARK = benchmark(*QUESTIONS)


def results(strategy, right, kept, failed=0):
    """The first `right` answers are right, the last `failed` ones failed."""
    found = []
    for number, one in enumerate(QUESTIONS):
        call = {"role": "large", "style": "transfer", "text": "", "answer": None, "cut": None}
        call |= {"input_tokens": 9, "output_tokens": 1}
        if kept:
            call["selection"] = {"kept_tokens": kept, "reasoning_tokens": 50, "reached": 0.8}
        found.append(
            {
                "id": one.id,
                "strategy": strategy,
                "answer": "yes",
                "text": "yes" if number < right else "no",
                "route": "transferred",
                "fallback": None,
                "calls": [call],
                "error": "gone" if number >= len(QUESTIONS) - failed else None,
            }
        )
    return found


def test_score_and_tokens_by_layer_with_paired_differences():
    full, second, fifth = names = layer_strategies([2, 5], SparseTransfer(share=0.5))
    ends = ("", ":sparse-L2-0.5", ":sparse-L5-0.5")
    assert names == [f"full_transfer{end}" for end in ends]
    table, records = layer_table(
        BENCHMARK,
        results(full, 36, None) + results(second, 30, 10) + results(fifth, 36, 20, failed=2),
    )
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(rows) == ["full transfer", "L2", "L5"]
    assert rows["full transfer"]["score"].value == pytest.approx(90)
    assert rows["full transfer"]["tokens"].value == 50
    assert rows["full transfer"]["minus full transfer"] is None
    assert (rows["L2"]["tokens"].value, rows["L2"]["% of all"].value) == (10, pytest.approx(20))
    gap = rows["L2"]["minus full transfer"]
    assert gap.value == pytest.approx(-15)
    assert gap.low < gap.value < gap.high < 0
    assert rows["L5"]["minus full transfer"].value == 0
    assert rows["L5"]["score"].questions == 38  # failed ones are in no figure
    named = {one.name: one.value for one in records}
    assert named["layers.L2.score"] == pytest.approx(75)
    assert named["layers.full_transfer.tokens"] == 50
