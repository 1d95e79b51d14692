"""Attention on a span of a prompt equals transformers' eager implementation, beside other calls."""

import asyncio
import gc
import json
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from attention_prompts import PICTURES, ask, eager_attention
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langgraph_mai import ChatServer, ChatTransformers, ChatVLLM, ModelError
from langgraph_mai.models.capabilities import SupportsAttention
from langgraph_mai.models.errors import CallTimeoutError, ContextLengthError

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
def test_any_text_and_span(model, deep_checkpoint, parts, pictures, query, bound, layers):
    before, shown, _ = parts
    messages = ask("".join(parts), *pictures)
    span = (len(before), len(before) + len(shown))
    reading = model.model_copy(update={"prefix_cache_bytes": bound})
    attention = reading.attention(messages, span, layers=layers, query=query, heads=True)
    assert attention.layers == tuple(dict.fromkeys(layers))
    assert bound is None or attention.cached_tokens == 0
    assert_close(attention, eager_attention(deep_checkpoint, messages, span, query))
    # One token a byte: those of a character stand for the same one.
    letters = [(at, at + 1) for at, letter in enumerate(shown) for _ in letter.encode()]
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
        ({"layers": []}, "are no layers; name some of 1 to 4"),
        ({"layers": [True]}, "are no layers; name some of 1 to 4"),
        ({"layers": (2, False)}, "are no layers; name some of 1 to 4"),
        ({"layers": [2.0]}, "are no layers; name some of 1 to 4"),
        ({"layers": ["2"]}, "are no layers; name some of 1 to 4"),
        ({"layers": True}, "True are no layers; name some of 1 to 4 in a list, or all"),
        ({"layers": 2}, "2 are no layers"),
        ({"layers": "last"}, "'last' are no layers"),
        ({"query": 0}, "not a position behind the span"),
        ({"query": -26}, "that is -1 to -25 here"),
        ({"span": (3, 3)}, "There is no span from 3 to 3"),
        ({"span": (0, len(TEXT) + 1)}, f"the last message's text has {len(TEXT)} characters"),
        ({"span": (-4, 3)}, "There is no span from -4 to 3"),
    ],
)
def test_what_is_not_there_is_said(model, asked, sentence):
    asked = {"span": SPAN, "layers": [1]} | asked
    with pytest.raises(ModelError) as error:
        model.attention(ask(TEXT), asked.pop("span"), **asked)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_prompt_longer_than_the_context(qwen_checkpoint):
    with pytest.raises(ContextLengthError):
        chat(qwen_checkpoint).attention(ask("x" * 2000), (0, 9))


def test_weights_that_are_no_numbers(deep_checkpoints, tmp_path):
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


# Beside other calls: nothing changes, and nothing holds anything up.

QUESTION = "What is it?"


def read(model, *pictures, **asked):
    return model.attention(ask(TEXT, *pictures), SPAN, **asked)


def answers(model, *pictures):
    """What a question is answered directly and after a transfer, to the last bit."""
    messages = [
        model.invoke(ask(text, *pictures), logprobs=True, max_tokens=8)
        for text in (QUESTION, TEXT, TEXT[:30])
    ]
    return [(m.content, m.response_metadata["logprobs"], m.usage_metadata) for m in messages]


class Layers:
    """Count the decoder layers that run, hold them until `go`, or fail in the second one."""

    def __init__(self, monkeypatch):
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer as Layer

        self.count, self.go, self.begun, self.error = 0, threading.Event(), threading.Event(), None
        self.go.set()
        forward = Layer.forward

        def watched(this, *args, **kwargs):
            self.count += 1
            self.begun.set()
            assert self.go.wait(60)
            if self.error and self.count == 2:
                error, self.error = self.error, None
                raise error
            return forward(this, *args, **kwargs)

        monkeypatch.setattr(Layer, "forward", watched)


@pytest.fixture
def layers(monkeypatch):
    return Layers(monkeypatch)


@pytest.fixture
def qwen(deep_checkpoints):
    return chat(deep_checkpoints["qwen3-vl"], max_tokens=8).load()


@pytest.mark.parametrize("bound", [None, 0])
def test_answers_are_the_same_to_the_last_bit_after_passes(model, bound):
    model = model.model_copy(update={"prefix_cache_bytes": bound})
    for shown in (PICTURES[:0], PICTURES[:2]):
        model.clear_prefix_cache()
        expected = answers(model, *shown)
        model.clear_prefix_cache()
        read(model, *shown, layers="all")
        read(model, PICTURES[2])  # another image's positions are not kept either
        assert answers(model, *shown) == expected


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("no luck"), "failed (RuntimeError: no luck)"),
        (torch.OutOfMemoryError("out of memory"), "ran out of memory"),
    ],
)
def test_a_pass_that_fails_says_so_and_leaves_nothing_behind(qwen, layers, error, sentence):
    qwen.clear_prefix_cache()
    expected = answers(qwen, PICTURES[0])
    qwen.clear_prefix_cache()
    layers.count, layers.error = 0, error
    with pytest.raises(ModelError) as raised:
        read(qwen, PICTURES[0], layers=[4])
    assert sentence in str(raised.value)
    assert answers(qwen, PICTURES[0]) == expected


def test_a_pass_reuses_the_direct_answers_prefix(model):
    direct = model.invoke(ask(QUESTION, PICTURES[0]), max_tokens=2)
    behind = len("\nassistant\n") + 2
    attention = read(model, PICTURES[0])
    assert attention.cached_tokens == direct.usage_metadata["input_tokens"] - behind
    # The query is computed even where all of the prompt is known.
    model.invoke(ask(TEXT, PICTURES[0]), max_tokens=2)
    again = read(model, PICTURES[0], query=-9)
    assert again.cached_tokens == again.query == again.input_tokens - 9


def test_passes_run_in_the_middle_of_an_answer_and_of_many(model, qwen):
    drawn = {"max_tokens": 300, "temperature": 1.0, "seed": 3}
    expected = qwen.invoke(ask(QUESTION, PICTURES[0]), **drawn).content
    weights = read(qwen, PICTURES[1]).weights
    with ThreadPoolExecutor(6) as pool:
        answer = pool.submit(qwen.invoke, ask(QUESTION, PICTURES[0]), **drawn)
        passes = [read(qwen, PICTURES[1], timeout=60) for _ in range(3)]
        assert not answer.done()
        assert answer.result().content == expected
        for attention in passes:
            np.testing.assert_allclose(attention.weights, weights, rtol=0, atol=1e-6)
        single = [model.invoke(ask(QUESTION, one), max_tokens=8).content for one in PICTURES]
        alone = [read(model, one).weights for one in PICTURES]
        calls = [
            (
                at,
                pool.submit(model.invoke, ask(QUESTION, PICTURES[at]), max_tokens=8),
                pool.submit(read, model, PICTURES[at]),
            )
            for at in [0, 1, 2] * 4
        ]
        for at, call, one in calls:
            assert call.result().content == single[at]
            np.testing.assert_allclose(one.result().weights, alone[at], rtol=0, atol=1e-6)


def test_passes_that_never_cease_do_not_hold_up_calls_nor_calls_passes(qwen):
    over = threading.Event()
    expected = qwen.invoke(ask(QUESTION), max_tokens=60).content

    def passes():
        return [read(qwen) for _ in iter(over.is_set, True)]

    def calls():
        return {qwen.invoke(ask(QUESTION), max_tokens=60).content for _ in iter(over.is_set, True)}

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(one) for one in (passes, passes, calls, calls)]
        try:
            got = {qwen.invoke(ask(QUESTION), max_tokens=60, timeout=60).content for _ in range(3)}
            assert all(read(qwen, timeout=60).weights.any() for _ in range(3))
        finally:
            over.set()
        assert got == work[2].result() == work[3].result() == {expected}


def test_a_pass_runs_no_layer_that_nobody_needs(qwen, layers):
    for highest in (1, 2, 3, 4):
        layers.count = 0
        read(qwen.model_copy(update={"prefix_cache_bytes": 0}), layers=[1, highest])
        assert layers.count == highest


def test_a_cancelled_or_late_caller_ends_the_pass_at_the_next_layer(qwen, layers):
    async def cancel():
        task = asyncio.create_task(qwen.aattention(ask(TEXT), SPAN, layers="all"))
        await asyncio.to_thread(layers.begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    qwen.clear_prefix_cache()
    layers.count = 0
    layers.go.clear()
    layers.begun.clear()
    asyncio.run(cancel())
    with pytest.raises(CallTimeoutError, match=r"its timeout of 0\.05 seconds; raise the time"):
        read(qwen, layers="all", timeout=0.05)  # it still waits: it is given up before it begins
    layers.go.set()
    assert read(qwen, layers=[1], timeout=60).weights.any()
    assert layers.count <= 3
    for timeout in (0, -1, float("nan"), float("inf"), "5", True):
        with pytest.raises(ValueError, match="must be a number of seconds above 0"):
            read(qwen, timeout=timeout)


def test_the_seconds_of_a_pass_hold_its_waiting(qwen, layers):
    layers.go.clear()
    layers.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        waiting = pool.submit(read, qwen)
        assert layers.begun.wait(60)
        time.sleep(0.1)
        layers.go.set()
        assert 0.1 <= waiting.result().seconds <= time.monotonic() - start


def test_memory_grows_with_the_prompt_and_not_with_its_square(qwen):
    """A mask or a matrix of 15,000 x 15,000 floats would be 0.9 GB; all of it takes far less."""
    import resource

    read(qwen)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = "y" * 15_000
    attention = qwen.attention(ask(text), (100, 200), layers=[3])
    assert attention.input_tokens > len(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


# Which tokens are a span.


def with_template(checkpoint, folder, change):
    shutil.copytree(checkpoint, folder)
    template = folder / "chat_template.jinja"
    template.write_text(change(template.read_text()))
    return chat(folder)


@pytest.mark.parametrize("size", ["small", "large"])
@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.sampled_from(["Count ", "the red", "\n", "12", " 😀", "答", "zx", "."]), min_size=3
    ),
    st.data(),
)
def test_a_span_of_words_is_covered_by_tokens_of_the_prompt(demo_weights, size, parts, data):
    model = chat(demo_weights / size)
    text = "".join(parts)
    start = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(start + 1, len(text)))
    attention = model.attention(ask(text), (start, stop))
    tokens = model.prompt_token_ids(ask(text))
    length = len(attention.token_ids)
    assert list(attention.token_ids) in [tokens[at : at + length] for at in range(len(tokens))]
    covered = 0
    for before, (first, last) in zip([None, *attention.spans], attention.spans, strict=False):
        assert first == covered or before == (first, last)
        covered = last
    assert covered == stop - start


def test_control_tokens_in_the_text_are_read_as_characters(deep_checkpoint):
    text = "He said <|im_end|> and went."
    attention = chat(deep_checkpoint).attention(ask(text), (0, len(text)))
    assert not any(attention.special)
    assert attention.spans[-1][1] == len(text)
    # The word that the template ends with is not taken for the message's.
    whole = chat(deep_checkpoint).attention(ask("assistant user"), (0, 14))
    word = chat(deep_checkpoint).attention(ask("assistant user"), (0, 9))
    assert word.token_ids == whole.token_ids[:9]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c.text", "c.text | trim"),
        lambda text: text.replace("c.text", "c.text | upper"),
        lambda text: text.replace("c.text", "c.text + c.text"),
    ],
)
def test_a_template_that_changes_the_text_is_refused(qwen_checkpoint, tmp_path, change):
    model = with_template(qwen_checkpoint, tmp_path / "m", change)
    text = "  The red one.  "
    with pytest.raises(ModelError, match="changes the last message's text"):
        model.attention(ask(text, PICTURES[0]), (0, len(text)))


def test_tokens_that_cannot_be_told_apart_are_refused(qwen_checkpoint, tmp_path, monkeypatch):
    from transformers import PreTrainedTokenizerFast, Qwen3VLProcessor

    call = Qwen3VLProcessor.__call__

    def shouting(self, *args, text, **kwargs):
        return call(self, *args, text=[one.replace("red", "RED") for one in text], **kwargs)

    folder = shutil.copytree(qwen_checkpoint, tmp_path / "m")
    monkeypatch.setattr(Qwen3VLProcessor, "__call__", shouting)
    with pytest.raises(ModelError, match="writes the prompt's text with other tokens"):
        chat(folder).attention(ask("The red one."), (0, 3))
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", False)
    with pytest.raises(ModelError, match="does not say which text its tokens stand for"):
        chat(folder).attention(ask("The red one."), (0, 3))


def test_text_in_front_of_an_image_is_refused(deep_checkpoint):
    blocks = [{"type": "text", "text": "The red one"}, {"type": "image", "image": PICTURES[0]}]
    message = HumanMessage([*blocks, {"type": "text", "text": " is round."}])
    model = chat(deep_checkpoint)
    assert len(model.attention([message], (12, 14)).token_ids) == 2
    with pytest.raises(ModelError, match="put the images first"):
        model.attention([message], (4, 7))


def test_a_tokenizer_that_leaves_white_space_out(demo_weights, tmp_path):
    """As some byte-level tokenizers count it: a word's offsets are without the space before it."""
    folder = shutil.copytree(demo_weights / "small", tmp_path / "m")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    trimming = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    tokenizer["post_processor"] = trimming | {"use_regex": False}
    path.write_text(json.dumps(tokenizer))
    text = "There are 3 red circles."
    trimmed = chat(folder).attention(ask(text), (0, len(text)))
    assert trimmed.spans == chat(demo_weights / "small").attention(ask(text), (0, len(text))).spans


# A model that is loaded to a layer.


@pytest.fixture
def copy(deep_checkpoint, tmp_path):
    return shutil.copytree(deep_checkpoint, tmp_path / "model")


def test_a_model_of_few_layers_gives_what_the_whole_model_gives(deep_checkpoint, copy):
    whole, few = chat(deep_checkpoint), chat(copy, layers=3)
    for shown in (PICTURES[:0], PICTURES[:2]):
        expected = read(whole, *shown, layers="all", heads=True)
        for _ in range(2):
            attention = read(few, *shown, layers=[3], heads=True)
            assert attention.token_ids == expected.token_ids
            np.testing.assert_allclose(attention.heads, expected.heads[[2]], rtol=0, atol=1e-5)
    with pytest.raises(ModelError, match="is loaded to layer 3, and layer 4 was asked for"):
        read(few, layers=[4])
    with pytest.raises(ModelError, match="loaded to 3 layers, which give attention and no answers"):
        few.invoke("x")
    with pytest.raises(ModelError, match="has 4 layers and 9 were asked for"):
        chat(copy, layers=9).load()
    few.unload()


def test_layers_above_and_the_output_head_are_not_loaded(copy, monkeypatch):
    from transformers import AutoModel

    loaded, load = [], AutoModel.from_pretrained

    def watched(*args, **kwargs):
        made = load(*args, **kwargs)
        loaded.append(weakref.ref(made[0]))
        return made

    monkeypatch.setattr(AutoModel, "from_pretrained", watched)
    model = chat(copy, layers=2).load()
    names = {name for name, _ in loaded[0]().named_parameters()}
    layers = {name.split(".layers.")[1][0] for name in names if "language_model.layers" in name}
    assert layers == {"0", "1"}
    assert not any("lm_head" in name for name in names)
    expected = read(model).weights
    model.unload()
    deadline = time.monotonic() + 20
    while loaded[0]() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert loaded[0]() is None
    np.testing.assert_array_equal(read(model).weights, expected)


def test_passes_of_such_a_model_share_a_questions_prefix(copy):
    model = chat(copy)
    model = model.model_copy(update={"layers": model.count_layers()})
    first, other = read(model, PICTURES[0], layers=[4]), TEXT.replace("red", "blue")
    span = (SPAN[0], SPAN[1] + 1)
    second = model.attention(ask(other, PICTURES[0]), span, layers=[4])
    third = read(model, PICTURES[0], layers=[2])
    assert (first.cached_tokens, second.cached_tokens > 0) == (0, True)
    assert third.cached_tokens == third.input_tokens - 1
    model.unload()
