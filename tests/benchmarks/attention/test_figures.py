"""What passes say together, against small calculations with numpy."""

import csv
import io
import json

import numpy as np
import pytest
from attention_readings import attention, reading

from langgraph_mai.benchmarks.attention.figures import AttentionFigures
from langgraph_mai.benchmarks.attention.measured_pass import MeasuredPass
from langgraph_mai.benchmarks.attention.tables import (
    as_csv,
    head_rows,
    layer_rows,
    records,
    tables,
    top_token_rows,
)

SMALL = "red red - = yes"
LARGE = "red blue = = no"


def random_heads(seed):
    return np.random.default_rng(seed).dirichlet(np.ones(12), size=(3, 2))[..., :5]


@pytest.fixture(scope="module")
def figures():
    readings = []
    for number in range(4):
        about = {"images": (f"{number // 2}.png",)}
        readings.append(reading(f"q{number}", "small", SMALL, random_heads(number), **about))
        if number < 3:  # one of the large model's failed
            readings.append(reading(f"q{number}", "large", LARGE, random_heads(9), **about))
    return AttentionFigures(readings, 0.8)


def needed(weights):
    ordered = np.sort(np.asarray(weights, dtype=np.float64))[::-1].cumsum()
    return int(np.searchsorted(ordered, 0.8 * ordered[-1]) + 1)


def test_layers_are_means_over_heads_and_questions(figures):
    found = figures.layer("small", 2)
    weights = [random_heads(number)[1].mean(axis=0) for number in range(4)]
    assert found.total.value == pytest.approx(np.mean([one.sum() for one in weights]), rel=1e-6)
    assert found.needed.value == np.mean([needed(one) for one in weights])
    assert found.needed_share.value == found.needed.value / 5
    assert (found.total.questions, found.total.clusters) == (4, 2)


def test_heads_are_counted_one_by_one(figures):
    found = figures.head("small", 3, 2)
    weights = [random_heads(number)[2, 1] for number in range(4)]
    assert found.total.value == pytest.approx(np.mean([one.sum() for one in weights]), rel=1e-6)
    assert found.needed.value == np.mean([needed(one) for one in weights])


def test_the_overlap_is_of_questions_that_have_both(figures):
    whole = figures.whole_overlap
    assert whole.jaccard.value == pytest.approx(2 / 8)  # red and = of red red - = yes blue = no
    assert whole.of_small.value == whole.of_large.value == pytest.approx(2 / 5)
    assert (whole.jaccard.questions, figures.alike.value) == (3, 0.0)


def test_repeated_texts_count_together_among_the_top_tokens(figures):
    first, *rest = figures.top_tokens("small", 1)
    weights = [random_heads(number)[0].mean(axis=0) for number in range(4)]
    red = np.mean([one[:2].sum() / one.sum() for one in weights])
    found = {one.text: one.share.value for one in (first, *rest)}
    assert found["red"] == pytest.approx(red, rel=1e-6)
    assert sum(found.values()) == pytest.approx(1)
    assert first.share.value == max(found.values())


def test_special_tokens_are_in_no_figure():
    made = MeasuredPass.of("yes <end>", attention("yes <end>", [[[0.1, 0.8]]]), 0.8)
    assert made.total(1) == pytest.approx(0.1)
    assert made.head_tokens == ((1.0,),)


def test_a_pass_is_the_same_after_json():
    made = MeasuredPass.of(SMALL, attention(SMALL, random_heads(0)), 0.8)
    back = MeasuredPass.from_dict(json.loads(json.dumps(made.as_dict())))
    assert (back.head_totals, back.head_tokens) == (made.head_totals, made.head_tokens)
    assert all(back.pieces(layer) == made.pieces(layer) for layer in made.layers)
    assert back.attention.heads is None


def test_a_reasoning_without_tokens_is_refused():
    with pytest.raises(ValueError, match="no tokens"):
        MeasuredPass.of("<end>", attention("<end>", [[[0.5]]]), 0.8)


def read_csv(rows):
    return list(csv.DictReader(io.StringIO(as_csv(rows))))


def test_spreadsheets_have_a_row_each(figures):
    layers = read_csv(layer_rows(figures))
    assert len(layers) == 7 * 3
    alone = [row for row in layers if row["id"] == "q3"]
    assert {row["jaccard"] for row in alone} == {""}
    heads = read_csv(head_rows(figures))
    assert len(heads) == 2 * 3 * 2
    assert [row["token"] for row in read_csv(top_token_rows(figures))][:4]
    value = figures.head("large", 1, 2).total.value
    (row,) = [r for r in heads if (r["source"], r["layer"], r["head"]) == ("large", "1", "2")]
    assert float(row["total_attention_mean"]) == value


def test_records_have_names_of_their_own(figures):
    names = [one.name for one in records(figures)]
    assert len(set(names)) == len(names)
    found = {one.name: one.value for one in records(figures)}
    assert found["small.L2.tokens_needed"] == figures.layer("small", 2).needed.value
    assert found["overlap.L1.jaccard"] == figures.overlap(1).jaccard.value


def test_the_table_has_the_papers_form(figures):
    sparsity, overlaps = tables(figures)
    assert [row[:2] for row in sparsity.rows[:2]] == [
        ("L1", "large + small R"),
        ("L1", "large + large R"),
    ]
    assert sparsity.rows[0][3] == figures.layer("small", 1).needed
    assert overlaps.rows[-1][0] == "whole reasonings"
