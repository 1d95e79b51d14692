"""Attention on a stretch of a prompt is what transformers' eager implementation says it is."""

import asyncio

import numpy as np
import pytest
import torch
from attention_prompts import PICTURES, ask, eager_attention
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langgraph_mai.models import ChatServer, ChatTransformers, ChatVLLM, ModelError
from langgraph_mai.models.capabilities import SupportsAttention

REASONING = "First, the 😀 is café-like: 漢字! So 3 + 4 = 7.\n\nIt is red"
TEXT = f"What is it?\n{REASONING}\nAnswer now."
SPAN = (TEXT.index(REASONING), TEXT.index(REASONING) + len(REASONING))


def chat(folder, **settings):
    return ChatTransformers(model=str(folder), dtype="float32", device="cpu", **settings)


@pytest.fixture
def model(deep_checkpoint):
    model = chat(deep_checkpoint).load()
    model.clear_prefix_cache()
    return model


def assert_close(attention, reference):
    """The reference has every layer, 1 first."""
    expected = reference[[layer - 1 for layer in attention.layers]]
    np.testing.assert_allclose(attention.heads, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(attention.weights, expected.mean(axis=1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("pictures", range(3))
@pytest.mark.parametrize("query", [-1, -2, -10])
def test_every_head_of_every_layer(model, deep_checkpoint, pictures, query):
    messages = ask(TEXT, *PICTURES[:pictures])
    reference = eager_attention(deep_checkpoint, messages, SPAN, query)
    alone = model.attention(messages, SPAN, layers="all", query=query, heads=True)
    model.invoke(ask("What is it?", *PICTURES[:pictures]), max_tokens=2)
    behind_prefix = model.attention(messages, SPAN, layers="all", query=query, heads=True)
    assert alone.cached_tokens == 0
    assert behind_prefix.cached_tokens > 0
    for attention in (alone, behind_prefix):
        assert attention.layers == (1, 2, 3, 4)
        assert attention.heads.shape == (4, 4, len(REASONING.encode()))
        assert attention.weights.dtype == attention.heads.dtype == np.float32
        assert attention.query == attention.input_tokens + query
        assert_close(attention, reference)


ODD = ["👩\u200d👧", "e\u0301", "\n\n", "  ", "\ue000"]
pieces = st.text(min_size=1, max_size=12) | st.sampled_from(ODD)


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    parts=st.tuples(pieces, pieces, pieces),
    pictures=st.lists(st.sampled_from(PICTURES), max_size=2),
    query=st.integers(-13, -1),
    bound=st.sampled_from([None, 0]),
    layers=st.lists(st.integers(1, 4), min_size=1),
)
def test_any_text_and_stretch(model, deep_checkpoint, parts, pictures, query, bound, layers):
    before, stretch, _ = parts
    messages = ask("".join(parts), *pictures)
    span = (len(before), len(before) + len(stretch))
    reading = model.model_copy(update={"prefix_cache_bytes": bound})
    attention = reading.attention(messages, span, layers=layers, query=query, heads=True)
    assert attention.layers == tuple(dict.fromkeys(layers))
    assert bound is None or attention.cached_tokens == 0
    assert_close(attention, eager_attention(deep_checkpoint, messages, span, query))
    # One token a byte: those of a character stand for the same one.
    letters = [(at, at + 1) for at, letter in enumerate(stretch) for _ in letter.encode()]
    assert list(attention.spans) == letters


def test_the_mean_over_heads_alone(model):
    attention = model.attention(ask(TEXT), SPAN, layers=[2])
    assert attention.heads is None
    assert attention.weights.shape == (1, len(REASONING.encode()))
    assert 0 < attention.weights.sum() < 1


def test_what_a_layer_pays_to_the_whole_text_and_to_its_parts(model):
    parts = [model.attention(ask(TEXT), span, layers=[3]) for span in ((0, 20), (20, len(TEXT)))]
    whole = model.attention(ask(TEXT), (0, len(TEXT)), layers=[3])
    joined = np.concatenate([part.weights for part in parts], axis=1)
    np.testing.assert_allclose(joined, whole.weights, rtol=0, atol=1e-6)


def test_the_default_layer_is_at_the_depth_of_the_papers(model):
    assert model.attention(ask(TEXT), SPAN).layers == (2,)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_implementation_that_answers_does_not_matter(deep_checkpoint, implementation):
    model = chat(deep_checkpoint, attn_implementation=implementation)
    attention = model.attention(ask(TEXT, PICTURES[1]), SPAN, layers="all", heads=True)
    assert_close(attention, eager_attention(deep_checkpoint, ask(TEXT, PICTURES[1]), SPAN, -1))


def test_half_precision_is_read_in_single_precision(deep_checkpoint):
    model = chat(deep_checkpoint).model_copy(update={"dtype": "bfloat16"})
    model.invoke(ask("What is it?", PICTURES[0]), max_tokens=1)
    attention = model.attention(ask(TEXT, PICTURES[0]), SPAN, layers=[1])
    expected = eager_attention(deep_checkpoint, ask(TEXT, PICTURES[0]), SPAN, -1)[:1].mean(axis=1)
    np.testing.assert_allclose(attention.weights, expected, rtol=0, atol=0.02)


def test_a_conversation_and_several_text_blocks(model, deep_checkpoint):
    blocks = [
        {"type": "image", "image": PICTURES[0]},
        {"type": "text", "text": TEXT[:30]},
        TEXT[30:40],
        {"type": "text", "text": TEXT[40:]},
    ]
    messages = [SystemMessage(TEXT), *ask(TEXT), AIMessage(TEXT), HumanMessage(blocks)]
    attention = model.attention(messages, SPAN, layers="all", heads=True)
    assert_close(attention, eager_attention(deep_checkpoint, messages, SPAN, -1))


def test_the_event_loop(model):
    async def gather():
        asked = [model.aattention(ask(TEXT, one), SPAN, layers=[2]) for one in PICTURES]
        return await asyncio.gather(*asked)

    expected = [model.attention(ask(TEXT, one), SPAN, layers=[2]) for one in PICTURES]
    for got, same in zip(asyncio.run(gather()), expected, strict=True):
        np.testing.assert_allclose(got.weights, same.weights, rtol=0, atol=1e-6)
        assert got.spans == same.spans
        assert got.seconds > 0


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"layers": [5]}, "has no layer 5: its layers are 1 to 4"),
        ({"layers": [2, 0]}, "has no layer 0"),
        ({"layers": []}, "No layer is asked for"),
        ({"layers": [True]}, "True is no layer; a layer is a whole number, here of 1 to 4"),
        ({"layers": (2, False)}, "False is no layer"),
        ({"layers": [2.0]}, "2.0 is no layer"),
        ({"layers": ["2"]}, "'2' is no layer"),
        ({"layers": True}, "True are no layers; name some of 1 to 4 in a list, or all"),
        ({"layers": 2}, "2 are no layers"),
        ({"layers": "last"}, "'last' are no layers"),
        ({"query": 0}, "not a position behind the stretch"),
        ({"query": -26}, "that is -1 to -25 here"),
        ({"span": (3, 3)}, "There is no stretch from 3 to 3"),
        ({"span": (0, len(TEXT) + 1)}, f"the last message's text has {len(TEXT)} characters"),
        ({"span": (-4, 3)}, "There is no stretch from -4 to 3"),
    ],
)
def test_what_is_not_there_is_said(model, asked, sentence):
    asked = {"span": SPAN, "layers": [1]} | asked
    with pytest.raises(ModelError) as error:
        model.attention(ask(TEXT), asked.pop("span"), **asked)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_prompt_longer_than_the_context(qwen_checkpoint):
    from langgraph_mai.models.errors import ContextLengthError

    with pytest.raises(ContextLengthError):
        chat(qwen_checkpoint).attention(ask("x" * 2000), (0, 9))


def test_weights_that_are_no_numbers(deep_checkpoints, tmp_path):
    import shutil

    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(deep_checkpoints["qwen3-vl"], tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    weights["model.language_model.layers.1.self_attn.k_norm.weight"].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = chat(folder)
    assert np.isfinite(model.attention(ask(TEXT), SPAN, layers=[1]).weights).all()
    with pytest.raises(ModelError, match="is not a number"):
        model.attention(ask(TEXT), SPAN, layers=[1, 2])


@pytest.mark.parametrize("what", ["another language model", "a sliding window"])
def test_models_that_were_not_checked_are_refused(tmp_path, what):
    from checkpoints import save_internvl
    from transformers import LlamaConfig, Qwen2Config

    other = {"text_config": LlamaConfig, "pad_token_id": 0}
    window = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    chosen = other if what == "another language model" else window | {"text_config": Qwen2Config}
    model = chat(save_internvl(tmp_path / "internvl", **chosen))
    with pytest.raises(ModelError, match="cannot be read: that was checked for Qwen3-VL and"):
        model.attention(ask(TEXT), SPAN)
    assert model.invoke("It answers all the same", max_tokens=2).content


def test_who_gives_attention():
    assert isinstance(ChatTransformers(model="x"), SupportsAttention)
    assert not isinstance(ChatVLLM(model="x"), SupportsAttention)
    server = ChatServer(model="x", base_url="http://localhost:1/v1", api_key="none")
    assert not isinstance(server, SupportsAttention)
