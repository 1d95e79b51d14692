"""Which layer is picked, and what is said of how sure that is."""

import pytest

from langgraph_mai.benchmarks.attention.suggestion import (
    LayerOutcomes,
    Outcomes,
    best_layer,
    pick_layer,
    picked_shares,
    suggest,
)
from langgraph_mai.benchmarks.attention.suggestion_report import (
    pair_file_line,
    sentences,
    verdict,
)


def outcomes(right, tokens, full=1.0, count=400, each=1):
    """Layers that get the first so many of `count` questions right; `each` to a picture."""

    def worth(share):
        return tuple(float(number < share * count) for number in range(count))

    return Outcomes(
        layers={
            layer: LayerOutcomes(worth(share), (float(tokens[layer]),) * count)
            for layer, share in right.items()
        },
        full=worth(full),
        whole_tokens=(50.0,) * count,
        clusters=tuple(number // each for number in range(count)),
    )


def test_of_layers_that_do_as_well_the_one_with_fewest_tokens_is_picked():
    found = outcomes({1: 0.5, 2: 1.0, 3: 1.0}, {1: 5, 2: 30, 3: 20})
    assert pick_layer(found, 0.02) == 3
    made = suggest(found, 0.02, resamples=20)
    assert (made.layer, made.runner_up, made.is_sure) == (3, 2, True)
    assert made.advice == "use the layer"
    assert pair_file_line(made, 0.8) == "sparse: {layer: 3, share: 0.8}"
    assert "Layer 3: it hands over 20.0 of 50.0 tokens" in verdict(made)
    assert not any("too small" in one for one in sentences(made))


def test_a_difference_that_few_questions_cannot_show_is_no_evidence():
    few = outcomes({1: 0.8, 2: 1.0}, {1: 5, 2: 30}, count=10)
    assert pick_layer(few, 0.02) == 2  # layer 1 is not significantly worse, and may well be
    made = suggest(few, 0.02, resamples=50)
    assert made.advice == "measure more"
    assert "Measure more questions" in verdict(made)


def test_questions_about_one_picture_are_less_evidence():
    apart = outcomes({1: 0.995, 2: 1.0}, {1: 5, 2: 30})
    together = outcomes({1: 0.995, 2: 1.0}, {1: 5, 2: 30}, each=40)
    assert pick_layer(apart, 0.03) == 1
    assert pick_layer(together, 0.03) == 2


def test_where_every_layer_is_clearly_worse_it_says_full_transfer():
    made = suggest(outcomes({1: 0.4, 2: 0.7}, {1: 5, 2: 30}), 0.02, resamples=20)
    assert made.advice == "use full transfer"
    assert verdict(made).startswith("Use full transfer: sparse transfer at every layer is clearly")
    assert pair_file_line(made, 0.8) == ""
    assert made.picked.to_full.value == pytest.approx(-0.3)


def test_resamples_show_that_layers_are_not_told_apart():
    even = Outcomes(
        layers={
            1: LayerOutcomes((1.0, 0.0) * 10, (9.0,) * 20),
            2: LayerOutcomes((0.0, 1.0) * 10, (9.0,) * 20),
        },
        full=(1.0,) * 20,
        whole_tokens=(50.0,) * 20,
        clusters=tuple(range(20)),
    )
    shares = picked_shares(even, 0.02, resamples=200)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) > 0.2
    said = " ".join(sentences(suggest(even, 0.02, resamples=50)))
    assert "too small to tell the layers apart" in said


def test_resamples_are_the_same_every_time():
    found = outcomes({1: 0.8, 2: 0.85}, {1: 5, 2: 30}, count=30, each=2)
    assert picked_shares(found, 0.02, 40) == picked_shares(found, 0.02, 40)


def test_of_equal_scores_fewer_tokens_are_best_and_then_the_first_layer():
    assert best_layer(outcomes({1: 1.0, 2: 1.0, 3: 1.0}, {1: 9, 2: 5, 3: 5})) == 2


def test_one_layer_has_no_runner_up():
    made = suggest(outcomes({4: 1.0}, {4: 5}), 0.02, resamples=5)
    assert (made.layer, made.runner_up, made.to_runner_up) == (4, None, None)
    assert made.picked.picked == 1.0


def test_one_picture_makes_nobody_sure_though_all_its_resamples_are_alike():
    made = suggest(outcomes({1: 0.0, 2: 1.0}, {1: 5, 2: 30}, count=6, each=6), 0.02, resamples=20)
    assert made.picked.picked == 1.0
    assert (made.is_sure, made.undecided) == (False, [1])
    assert "not shown: L1" in sentences(made)[-1]
