"""From a pair file to how sparse transfer selects, and by whose attention."""

import yaml
from attention_prompts import PICTURES, ask

from langgraph_mai import load_pair
from langgraph_mai.configs import SparseTransfer
from langgraph_mai.models.capabilities import SupportsAttention
from langgraph_mai.models.transformers_selector import TransformersSelector

DEMO = {
    "prompts": "demo",
    "small": {"model": "demo:small", "dtype": "float32", "device": "cpu"},
    "large": {"model": "demo:large", "dtype": "float32", "device": "cpu"},
}


def pair_of(tmp_path, **changes):
    path = tmp_path / "pair.yaml"
    path.write_text(yaml.safe_dump(DEMO | changes))
    return load_pair(path, allow_fetch=True)


def test_a_pair_on_transformers_needs_no_selector():
    pair = load_pair("demo")
    assert pair.sparse == SparseTransfer()
    assert pair.selector is None
    assert isinstance(pair.large, SupportsAttention)


def test_the_small_model_as_selector(tmp_path):
    pair = pair_of(tmp_path, selector="small", sparse={"share": 0.5})
    assert pair.selector is pair.small
    assert pair.sparse.share == 0.5


def test_a_model_as_selector_has_the_settings_of_its_block(tmp_path):
    settings = {
        "revision": "v1",
        "dtype": "bfloat16",
        "device": "cuda:1",
        "max_pixels": 1000,
        "timeout": 9.0,
        "prefix_cache_bytes": 0,
    }
    pair = pair_of(tmp_path, selector={"model": "org/large", "attention": "eager", **settings})
    assert pair.selector == TransformersSelector(
        model="org/large", attn_implementation="eager", allow_fetch=True, **settings
    )


def test_a_pair_on_vllm_selects_by_a_copy_of_its_large_model():
    pair = load_pair("demo-vllm")
    assert not isinstance(pair.large, SupportsAttention)
    text = "There are 3 red circles."
    attention = pair.selector.attention(ask(text, PICTURES[0]), (0, len(text)))
    own = load_pair("demo").large.attention(ask(text, PICTURES[0]), (0, len(text)))
    assert attention.token_ids == own.token_ids
    assert abs(attention.weights - own.weights).max() < 1e-5
