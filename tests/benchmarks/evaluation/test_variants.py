"""Strategies with sparse transfer: their names, and what an evaluation makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai import ConfigError
from langgraph_mai.benchmarks.evaluation.variants import Variant, swept_layers
from langgraph_mai.configs import SparseTransfer
from langgraph_mai.graph import STRATEGIES, TRANSFER_STRATEGIES

SPARSE = st.builds(
    SparseTransfer,
    layer=st.none() | st.integers(1, 200),
    share=st.floats(0, 1, exclude_min=True),
    query=st.integers(-50, -1),
    keep=st.sampled_from(["attention", "sentences", "last", "random", "small"]),
)
NAMES = {
    "mai": Variant("mai"),
    "mai:sparse-0.8": Variant("mai", SparseTransfer()),
    "mai:sparse-L22-0.8": Variant("mai", SparseTransfer(layer=22)),
    "full_transfer:sparse-L3-0.5-q2-last": Variant(
        "full_transfer", SparseTransfer(layer=3, share=0.5, keep="last", query=-2)
    ),
}


@given(strategy=st.sampled_from(TRANSFER_STRATEGIES), sparse=SPARSE)
def test_a_name_is_short_and_says_all_about_its_variant(strategy, sparse):
    variant = Variant(strategy, sparse)
    assert Variant.read(variant.name) == variant
    assert {name: Variant.read(name) for name in NAMES} == NAMES
    assert [one.name for one in NAMES.values()] == list(NAMES)
    assert swept_layers(["mai:sparse-L4-0.8", *NAMES]) == (3, 4, 22)


def test_other_names_and_strategies_without_transfer_are_refused():
    for strategy in set(STRATEGIES) - set(TRANSFER_STRATEGIES):
        with pytest.raises(ConfigError, match="transfers no reasoning"):
            Variant(strategy, SparseTransfer())
    for tail in ("", "full", "sparse", "sparse-2", "sparse-L0-0.8", "sparse-0.8-best"):
        with pytest.raises(ConfigError, match="is no strategy"):
            Variant.read(f"mai:{tail}")
