"""What passes say together, against small calculations with numpy."""

import csv
import io
import json
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from attention_readings import attention, reading
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.benchmarks.attention.figures import (
    ALL_HEADS,
    WHOLE,
    AttentionFigures,
    text_shares,
    token_text,
)
from langgraph_mai.benchmarks.attention.measure import MeasuredPass
from langgraph_mai.benchmarks.attention.tables import (
    head_rows,
    layer_rows,
    records,
    tables,
    top_token_rows,
    write_files,
)
from langgraph_mai.nodes.sparse_transfer import TokenGroup

SMALL = "red red - = yes"
LARGE = "red blue = = no"

TEXTS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8)
WEIGHTS = st.lists(st.integers(0, 9), min_size=1, max_size=7)


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


def test_layers_and_heads_are_means_over_questions_by_image(figures):
    every = [random_heads(number) for number in range(4)]
    for (layer, head), weights in {
        (2, ALL_HEADS): [one[1].mean(axis=0) for one in every],
        (3, 2): [w[2, 1] for w in every],
    }.items():
        found = figures.means["small", layer, head]
        total = found["total_attention"]
        assert total.value == pytest.approx(np.mean([one.sum() for one in weights]), rel=1e-6)
        assert found["tokens_needed"].value == np.mean([needed(one) for one in weights])
        assert found["share_needed"].value == pytest.approx(found["tokens_needed"].value / 5)
        assert (total.questions, total.clusters) == (4, 2)
    assert {source: one.value for source, one in figures.tokens.items()} == {"small": 5, "large": 5}


@given(TEXTS, TEXTS)
def test_overlap_is_that_of_multisets(first, second):
    readings = [
        reading("q", source, " ".join(words), np.ones((1, 1, len(words))))
        for source, words in (("small", first), ("large", second))
    ]
    found = AttentionFigures(readings, 0.8).overlap_means[WHOLE]
    one, two = Counter(first), Counter(second)
    shared, either = (one & two).total(), (one | two).total()
    assert {name: mean.value for name, mean in found.items()} == pytest.approx(
        {
            "jaccard": shared / either,
            "of_small": shared / len(first),
            "of_large": shared / len(second),
        }
    )


@given(WEIGHTS, st.sampled_from([0.1, 0.25, 0.5, 0.8, 0.9, 1.0]))
def test_no_smaller_set_of_tokens_holds_the_share(weights, share):
    words = " ".join("abcabcabc"[number] for number in range(len(weights)))
    made = MeasuredPass.of(words, attention(words, [[weights]]), share)
    wanted = Fraction(str(share)) * sum(weights)
    least = next(
        size
        for size in range(1, len(weights) + 1)
        if any(sum(some) >= wanted for some in combinations(weights, size))
    )
    assert made.head_tokens == ((least if sum(weights) and share < 1 else len(weights),),)
    shares = text_shares(made, 1)
    assert set(shares) == set(words.split())
    assert sum(shares.values()) == pytest.approx(1.0 if sum(weights) else 0.0)


def test_top_tokens_count_repeated_texts_together_and_break_ties_by_text(figures):
    found = {text: share.value for text, share, _ in figures.top_tokens("small", 1)}
    weights = [random_heads(number)[0].mean(axis=0) for number in range(4)]
    red = np.mean([one[:2].sum() / one.sum() for one in weights])
    assert found["red"] == pytest.approx(red, rel=1e-6)
    assert sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    even = AttentionFigures([reading("q", "small", "b c a", [[[0.2, 0.6, 0.2]]])], 0.8)
    assert [text for text, *_ in even.top_tokens("small", 1, 2)] == ["c", "a"]


def test_white_space_is_escaped_special_tokens_are_in_no_figure_and_json_keeps_a_pass():
    assert token_text("a\n b", TokenGroup(1, 2, 1, 0)) == "\\n"
    assert token_text("a\n b", TokenGroup(2, 4, 1, 0)) == "b"
    made = MeasuredPass.of("yes <end>", attention("yes <end>", [[[0.1, 0.8]]]), 0.8)
    assert (made.total(1), made.head_tokens) == (pytest.approx(0.1), ((1.0,),))
    with pytest.raises(ValueError, match="no tokens"):
        MeasuredPass.of("<end>", attention("<end>", [[[0.5]]]), 0.8)
    made = MeasuredPass.of(SMALL, attention(SMALL, random_heads(0)), 0.8)
    back = MeasuredPass.from_dict(json.loads(json.dumps(made.as_dict())))
    assert (back.head_totals, back.head_tokens) == (made.head_totals, made.head_tokens)
    assert all(back.groups(layer) == made.groups(layer) for layer in made.layers)
    assert back.attention.heads is None


def test_files_hold_all_rows_tables_and_records(figures, tmp_path):
    layers = layer_rows(figures)
    assert len(layers) == 7 * 3
    assert layers[layers["id"] == "q3"]["jaccard"].isna().all()  # of one reasoning alone
    both = layers[(layers["id"] == "q0") & (layers["layer"] == 1)].set_index("source")
    assert both.loc["small", "selected_in_other"] == both.loc["large", "other_in_selected"]
    heads = head_rows(figures).set_index(["source", "layer", "head"])
    assert len(heads) == 2 * 3 * 2
    total = figures.means["large", 1, 2]["total_attention"].value
    assert heads.loc[("large", 1, 2), "total_attention_mean"] == total
    assert set(top_token_rows(figures)["token"]) == {*SMALL.split(), *LARGE.split()}
    made, found = tables(figures), records(figures)
    names = write_files(tmp_path, figures, "Title", made, found, {"heads": b"PNG"}, "<html>")
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    text = (tmp_path / "attention.md").read_text()
    assert text.startswith("# Title\n\n**Tokens of a reasoning that hold 80%")
    assert text.endswith("![heads](attention-heads.png)\n")
    (first, *_) = csv.DictReader(io.StringIO((tmp_path / "attention.csv").read_text()))
    assert (first["id"], first["source"], first["tokens"]) == ("q0", "small", "5")
    written = json.loads((tmp_path / "attention.json").read_text())
    values = {one["name"]: one["value"] for one in written}
    assert len(values) == len(found)
    needs = figures.means["small", 2, ALL_HEADS]["tokens_needed"]
    assert values["small.L2.tokens_needed"] == needs.value
    assert values["overlap.L1.jaccard"] == figures.overlap_means[1]["jaccard"].value
    assert figures.overlap_means[WHOLE]["jaccard"].questions == 3
    sparsity, overlaps = made
    sources = ("large + small R", "large + large R")
    assert [row[:2] for row in sparsity.rows[:2]] == [("L1", source) for source in sources]
    assert sparsity.rows[2][3] == needs
    assert overlaps.rows[-1][0] == "whole reasonings"
