"""Strategies with sparse transfer: their names, and what an evaluation makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.evaluation.variants import Variant, swept_layers
from langgraph_mai.configs import SparseTransfer
from langgraph_mai.graph import STRATEGIES, TRANSFER_STRATEGIES

sparse = st.builds(
    SparseTransfer,
    layer=st.none() | st.integers(1, 200),
    share=st.floats(0, 1, exclude_min=True),
    query=st.integers(-50, -1),
    keep=st.sampled_from(["attention", "sentences", "last", "random", "small"]),
)


@given(strategy=st.sampled_from(TRANSFER_STRATEGIES), sparse=sparse)
def test_a_name_says_all_about_its_variant(strategy, sparse):
    variant = Variant(strategy, sparse)
    assert Variant.read(variant.name) == variant


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        (Variant("mai"), "mai"),
        (Variant("mai", SparseTransfer()), "mai:sparse-0.8"),
        (Variant("mai", SparseTransfer(layer=22)), "mai:sparse-L22-0.8"),
        (
            Variant("full_transfer", SparseTransfer(layer=3, share=0.5, keep="last", query=-2)),
            "full_transfer:sparse-L3-0.5-q2-last",
        ),
    ],
)
def test_names_are_short(variant, name):
    assert variant.name == name
    assert Variant.read(name) == variant


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - set(TRANSFER_STRATEGIES)))
def test_strategies_without_transfer_cannot_be_sparse(strategy):
    with pytest.raises(ConfigError, match="transfers no reasoning"):
        Variant(strategy, SparseTransfer())


@pytest.mark.parametrize(
    "name",
    ["mai:", "mai:full", "mai:sparse", "mai:sparse-2", "mai:sparse-L0-0.8", "mai:sparse-0.8-best"],
)
def test_other_names_are_refused(name):
    with pytest.raises(ConfigError, match="is no strategy"):
        Variant.read(name)


def test_the_layers_of_a_sweep():
    names = ["mai", "mai:sparse-0.8", "mai:sparse-L4-0.8", "full_transfer:sparse-L2-0.5-last"]
    assert swept_layers(names) == (2, 4)
