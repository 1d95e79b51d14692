"""A selector gives the attention of a model that is loaded no deeper than that takes."""

import gc
import shutil
import threading
import weakref

import numpy as np
import pytest
from attention_prompts import PICTURES, ask
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from langgraph_mai.models import ChatTransformers, ModelError
from langgraph_mai.models.capabilities import SupportsAttention
from langgraph_mai.models.transformers_selector import TransformersSelector

TEXT = "What is it?\nIt is round, and 赤い 😀, so it must be a circle.\nAnswer now."
SPAN = (12, TEXT.index("\nAnswer"))


class Loads:
    """What is loaded: weak references to the models, by layers."""

    def __init__(self, monkeypatch):
        from transformers import AutoModel, AutoModelForImageTextToText

        self.models = []
        for kind in (AutoModel, AutoModelForImageTextToText):
            monkeypatch.setattr(kind, "from_pretrained", self._counting(kind.from_pretrained))

    def _counting(self, load):
        def counting(*args, **kwargs):
            loaded = load(*args, **kwargs)
            self.models.append(weakref.ref(loaded[0]))
            return loaded

        return counting

    @property
    def names(self):
        return {name for name, _ in self.models[-1]().named_parameters()}

    def are(self, *depths):
        """Whether those that are still there have so many layers; None for those that are gone."""
        for collect in (lambda: None, gc.collect):
            collect()
            kept = [model() for model in self.models]
            if [model and len(model.get_decoder().layers) for model in kept] == list(depths):
                return True
            del kept
        return False


@pytest.fixture
def loads(monkeypatch):
    return Loads(monkeypatch)


@pytest.fixture
def folder(deep_checkpoint, tmp_path):
    """A checkpoint that no other test has loaded."""
    folder = shutil.copytree(deep_checkpoint, tmp_path / "model")
    yield str(folder)
    selector(folder).unload()
    ChatTransformers(model=str(folder), dtype="float32", device="cpu").unload()


@pytest.fixture
def qwen(deep_checkpoints, tmp_path):
    folder = shutil.copytree(deep_checkpoints["qwen3-vl"], tmp_path / "qwen")
    yield str(folder)
    selector(folder).unload()
    ChatTransformers(model=str(folder), dtype="float32", device="cpu").unload()


def selector(folder, **settings):
    return TransformersSelector(model=str(folder), dtype="float32", device="cpu", **settings)


def whole(checkpoint, *pictures):
    model = ChatTransformers(model=str(checkpoint), dtype="float32", device="cpu")
    return model.attention(ask(TEXT, *pictures), SPAN, layers="all", heads=True)


@pytest.mark.parametrize("pictures", range(3))
@pytest.mark.parametrize("depth", [1, 3])
def test_it_says_what_the_whole_model_says(deep_checkpoint, folder, pictures, depth):
    messages = ask(TEXT, *PICTURES[:pictures])
    reading = selector(folder)
    alone = reading.attention(messages, SPAN, layers=[depth], heads=True)
    again = reading.attention(messages, SPAN, layers=[depth], heads=True)
    expected = whole(deep_checkpoint, *PICTURES[:pictures])
    for attention in (alone, again):
        assert attention.token_ids == expected.token_ids
        assert attention.spans == expected.spans
        assert attention.query == expected.query
        np.testing.assert_allclose(attention.heads, expected.heads[[depth - 1]], rtol=0, atol=1e-5)


def test_layers_above_and_the_head_are_not_loaded(folder, loads):
    """The checkpoint's output layer is its own, and its vision tower is needed."""
    selector(folder).load(layers=[2])
    layers = {
        name.split(".layers.")[1][0] for name in loads.names if "language_model.layers" in name
    }
    assert layers == {"0", "1"}
    assert not any("lm_head" in name for name in loads.names)
    assert any("vision" in name or "visual" in name for name in loads.names)


def test_weights_above_are_not_even_looked_at(qwen):
    """Their values do not matter: here they have another shape."""
    from pathlib import Path

    import torch
    from safetensors.torch import load_file, save_file

    path = Path(qwen) / "model.safetensors"
    weights = load_file(path)
    expected = selector(qwen).attention(ask(TEXT), SPAN, layers=[2]).weights
    selector(qwen).unload()
    for name in weights:
        if ".layers.2." in name or ".layers.3." in name or "lm_head" in name:
            weights[name] = torch.zeros(1)
    save_file(weights, path, {"format": "pt"})
    got = selector(qwen).attention(ask(TEXT), SPAN, layers=[2]).weights
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    with pytest.raises(ModelError, match="do not have the shapes"):
        selector(qwen).attention(ask(TEXT), SPAN, layers=[3])


def test_a_higher_layer_loads_again_and_frees_what_was_there(qwen, loads):
    reading = selector(qwen)
    reading.attention(ask(TEXT), SPAN, layers=[1])
    assert loads.are(1)
    attention = reading.attention(ask(TEXT), SPAN, layers=[3, 2])
    assert loads.are(None, 3)
    assert attention.layers == (3, 2)
    reading.attention(ask(TEXT), SPAN, layers=[2])
    assert loads.are(None, 3)
    assert reading.attention(ask(TEXT), SPAN, layers="all").layers == (1, 2, 3, 4)
    assert loads.are(None, None, 4)


def test_it_loads_to_the_papers_depth_by_default(qwen, loads):
    assert selector(qwen).load().attention(ask(TEXT), SPAN).layers == (2,)
    assert loads.are(2)


def test_a_layer_that_is_not_there_loads_nothing(qwen, loads):
    with pytest.raises(ModelError, match="has no layer 5: its layers are 1 to 4"):
        selector(qwen).attention(ask(TEXT), SPAN, layers=[5])
    assert loads.models == []


def test_a_model_that_was_not_checked_loads_nothing(tmp_path, loads):
    from checkpoints import save_internvl
    from transformers import LlamaConfig

    folder = save_internvl(tmp_path / "llama", text_config=LlamaConfig, pad_token_id=0)
    with pytest.raises(ModelError, match="cannot be read"):
        selector(folder).load()
    assert loads.models == []


def test_selectors_of_one_model_share_it(qwen, loads):
    read = []

    def go(layer):
        read.append(selector(qwen).attention(ask(TEXT), SPAN, layers=[layer]))

    go(3)
    threads = [threading.Thread(target=go, args=[layer]) for layer in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 4
    assert loads.are(3)


def test_a_chat_model_that_is_loaded_serves_too(qwen, loads):
    model = ChatTransformers(model=qwen, dtype="float32", device="cpu", max_tokens=2)
    direct = model.invoke(ask(TEXT, PICTURES[0]))
    attention = selector(qwen).attention(ask(TEXT, PICTURES[0]), SPAN)
    assert attention.cached_tokens == direct.usage_metadata["input_tokens"] - 1
    assert len(loads.models) == 1
    selector(qwen).unload()
    assert model.invoke(ask(TEXT, PICTURES[0])).content == direct.content
    assert len(loads.models) == 1


def test_passes_about_one_question_share_its_prefix(folder, monkeypatch):
    from transformers import InternVLModel, Qwen3VLModel

    seen = []
    for kind in (InternVLModel, Qwen3VLModel):
        look = kind.get_image_features
        monkeypatch.setattr(
            kind,
            "get_image_features",
            lambda *args, _look=look, **kwargs: seen.append(1) or _look(*args, **kwargs),
        )
    reading = selector(folder)
    first = reading.attention(ask(TEXT, PICTURES[0]), SPAN, layers=[3], heads=True)
    other = TEXT.replace("circle", "square")
    second = reading.attention(ask(other, PICTURES[0]), SPAN, layers=[3], heads=True)
    third = reading.attention(ask(TEXT, PICTURES[0]), SPAN, layers=[2])
    assert first.cached_tokens == 0
    behind = len("square.\nAnswer now.\nassistant\n") + 2
    assert second.cached_tokens == second.input_tokens - behind
    assert third.cached_tokens == third.input_tokens - 1
    assert seen == [1]
    plain = selector(folder, prefix_cache_bytes=0)
    alone = plain.attention(ask(other, PICTURES[0]), SPAN, layers=[3], heads=True)
    assert alone.cached_tokens == 0
    np.testing.assert_allclose(second.heads, alone.heads, rtol=0, atol=1e-6)


def test_it_is_freed_and_loads_again(qwen, loads):
    reading = selector(qwen)
    expected = reading.attention(ask(TEXT), SPAN).weights
    reading.unload()
    reading.unload()
    for _ in range(200):  # the model's own thread may still be ending
        if loads.are(None):
            break
        threading.Event().wait(0.05)
    assert loads.are(None)
    np.testing.assert_array_equal(reading.attention(ask(TEXT), SPAN).weights, expected)


async def test_the_event_loop(qwen):
    expected = selector(qwen).attention(ask(TEXT, PICTURES[1]), SPAN)
    got = await selector(qwen, timeout=60).aattention(ask(TEXT, PICTURES[1]), SPAN)
    np.testing.assert_allclose(got.weights, expected.weights, rtol=0, atol=1e-6)


def test_what_it_is():
    reading = selector("x")
    assert isinstance(reading, SupportsAttention)
    assert not isinstance(reading, BaseChatModel)
    with pytest.raises(ValidationError):
        selector("x", max_tokens=5)
    with pytest.raises(ModelError, match="There is no model folder"):
        selector("./nowhere").load()
