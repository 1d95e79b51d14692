"""From a pair file to two chat models, and to the model whose attention selects tokens."""

from pathlib import Path

import pytest
import yaml
from attention_prompts import PICTURES, ask

from langgraph_mai import ChatTransformers, ConfigError, SparseTransfer, load_pair
from langgraph_mai.models.capabilities import SupportsAttention

DEMO = {
    "prompts": "demo",
    "small": {"model": "demo:small", "dtype": "float32", "device": "cpu"},
    "large": {"model": "demo:large", "dtype": "float32", "device": "cpu"},
}


def pair_of(tmp_path, **changes):
    path = tmp_path / "pair.yaml"
    path.write_text(yaml.safe_dump(DEMO | changes))
    return load_pair(path, allow_fetch=True)


def test_the_documented_pair_file_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    path = tmp_path / "my-servers.yaml"
    path.write_text(page.split("```yaml\n")[1].partition("```")[0])
    pair = load_pair(path)
    assert str(pair.small.openai_api_base) == "http://127.0.0.1:8101/v1"
    assert pair.large.model_name == "demo:large"


def test_a_pair_on_transformers_needs_no_selector():
    pair = load_pair("demo")
    assert pair.sparse == SparseTransfer()
    assert pair.selector is None
    assert isinstance(pair.large, SupportsAttention)
    assert pair.models() == {"small": pair.small, "large": pair.large}
    assert pair.with_layers([1, None]) == pair


def test_the_small_model_as_selector(tmp_path):
    pair = pair_of(tmp_path, selector="small", sparse={"share": 0.5})
    assert pair.selector is pair.small
    assert pair.sparse.share == 0.5
    assert set(pair.models()) == {"small", "large"}
    assert pair.with_layers([1]).selector is pair.small


def test_a_model_as_selector_has_the_settings_of_its_block(tmp_path):
    settings = {
        "revision": "v1",
        "dtype": "bfloat16",
        "device": "cuda:1",
        "max_pixels": 1000,
        "timeout": 9.0,
        "prefix_cache_bytes": 0,
    }
    selector = {"model": "org/large", "attention": "eager", **settings}
    pair = pair_of(tmp_path, selector=selector, sparse={"layer": 3})
    assert pair.selector == ChatTransformers(
        model="org/large", attn_implementation="eager", allow_fetch=True, layers=3, **settings
    )
    assert set(pair.models()) == {"small", "large", "selector"}


def test_a_selector_is_loaded_as_far_as_the_wanted_layers(tmp_path):
    pair = pair_of(tmp_path, selector=DEMO["large"])
    count = pair.large.count_layers()
    default = round(count * 22 / 36)
    assert pair.selector.layers is None
    wanted = {(1,): 1, (2, 1): 2, (None,): default, (None, 1): default, (count,): count}
    assert {layers: pair.with_layers(layers).selector.layers for layers in wanted} == wanted
    for pair_file in ({"selector": DEMO["large"]}, {}):
        with pytest.raises(ConfigError, match=f"no layer {count + 1}"):
            pair_of(tmp_path, **pair_file).with_layers([count + 1])
    missing = pair_of(tmp_path, selector={"model": str(tmp_path)})
    with pytest.raises(ConfigError):
        missing.with_layers([1])


def test_a_pair_on_vllm_selects_by_a_copy_of_its_large_model():
    pair = load_pair("demo-vllm").with_layers([None])
    assert not isinstance(pair.large, SupportsAttention)
    text = "There are 3 red circles."
    attention = pair.selector.attention(ask(text, PICTURES[0]), (0, len(text)))
    own = load_pair("demo").large.attention(ask(text, PICTURES[0]), (0, len(text)))
    assert attention.token_ids == own.token_ids
    assert abs(attention.weights - own.weights).max() < 1e-5
