"""Attention on a span of a prompt equals transformers' eager implementation, beside other calls."""

import asyncio
import gc
import json
import resource
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
QUESTION = "What is it?"
TEXT = f"{QUESTION}\n{REASONING}\nAnswer now."
SPAN = (TEXT.index(REASONING), TEXT.index(REASONING) + len(REASONING))


def chat(folder, **options):
    return ChatTransformers(model=str(folder), dtype="float32", device="cpu", **options)


def read(model, *pictures, **asked):
    return model.attention(ask(TEXT, *pictures), SPAN, **asked)


@pytest.fixture
def model(deep_checkpoint):
    model = chat(deep_checkpoint).load()
    model.clear_prefix_cache()
    return model


@pytest.fixture
def qwen(deep_checkpoints):
    model = chat(deep_checkpoints["qwen3-vl"], max_tokens=8).load()
    model.clear_prefix_cache()
    return model


def assert_close(attention, reference):
    """The reference has every head of every layer, 1 first."""
    expected = reference[[layer - 1 for layer in attention.layers]]
    np.testing.assert_allclose(attention.weights, expected.mean(axis=1), rtol=0, atol=1e-5)
    if attention.heads is not None:
        np.testing.assert_allclose(attention.heads, expected, rtol=0, atol=1e-5)


def test_every_layer_alone_and_behind_a_prefix(model, deep_checkpoint):
    for pictures, query in ((0, -1), (1, -2), (2, -10)):
        messages = ask(TEXT, *PICTURES[:pictures])
        reference = eager_attention(deep_checkpoint, messages, SPAN, query)
        model.clear_prefix_cache()
        alone = model.attention(messages, SPAN, layers="all", query=query, heads=True)
        model.invoke(ask(QUESTION, *PICTURES[:pictures]), max_tokens=2)
        behind_prefix = model.attention(messages, SPAN, layers="all", query=query, heads=True)
        assert alone.cached_tokens == 0
        assert behind_prefix.cached_tokens > 0
        for attention in (alone, behind_prefix):
            assert attention.layers == (1, 2, 3, 4)
            assert attention.weights.shape == (4, len(REASONING.encode()))
            assert attention.heads.shape == (4, 4, len(REASONING.encode()))
            assert attention.weights.dtype == attention.heads.dtype == np.float32
            assert attention.query == attention.input_tokens + query
            assert_close(attention, reference)


ODD = ["👩\u200d👧", "e\u0301", "\n\n", "  ", "\ue000"]
pieces = st.text(min_size=1, max_size=12) | st.sampled_from(ODD)


@settings(
    max_examples=15,
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
    attention = reading.attention(messages, span, layers=layers, query=query)
    assert attention.layers == tuple(dict.fromkeys(layers))
    assert bound is None or attention.cached_tokens == 0
    assert_close(attention, eager_attention(deep_checkpoint, messages, span, query))
    # One token a byte: those of a character stand for the same one.
    letters = [(at, at + 1) for at, letter in enumerate(shown) for _ in letter.encode()]
    assert list(attention.spans) == letters


def test_conversations_text_blocks_implementations_and_precisions(deep_checkpoint):
    blocks = [
        {"type": "image", "image": PICTURES[0]},
        {"type": "text", "text": TEXT[:30]},
        TEXT[30:40],
        {"type": "text", "text": TEXT[40:]},
    ]
    messages = [SystemMessage(TEXT), *ask(TEXT), AIMessage(TEXT), HumanMessage(blocks)]
    expected = eager_attention(deep_checkpoint, messages, SPAN, -1)
    for implementation in (None, "eager"):
        model = chat(deep_checkpoint, attn_implementation=implementation)
        assert_close(model.attention(messages, SPAN, layers="all"), expected)
    model = chat(deep_checkpoint).model_copy(update={"dtype": "bfloat16"})
    half = model.attention(messages, SPAN, layers=[1]).weights
    np.testing.assert_allclose(half, expected[:1].mean(axis=1), rtol=0, atol=0.02)


def test_the_default_layer_and_the_event_loop(qwen):
    async def gather():
        return await asyncio.gather(*(qwen.aattention(ask(TEXT, one), SPAN) for one in PICTURES))

    for got, same in zip(asyncio.run(gather()), (read(qwen, one) for one in PICTURES), strict=True):
        assert got.layers == (2,)  # at the depth of the paper's
        assert got.heads is None
        assert 0 < got.weights.sum() < 1
        np.testing.assert_allclose(got.weights, same.weights, rtol=0, atol=1e-6)
        assert got.spans == same.spans
        assert got.seconds > 0


MISSING = [
    ({"layers": [5]}, "has no layer 5: its layers are 1 to 4"),
    ({"layers": [2, 0]}, "has no layer 0"),
    *(
        ({"layers": layers}, "are no layers; name some of 1 to 4")
        for layers in ([], [True], (2, False), [2.0], ["2"])
    ),
    ({"layers": True}, "True are no layers; name some of 1 to 4 in a list, or all"),
    ({"layers": 2}, "2 are no layers"),
    ({"layers": "last"}, "'last' are no layers"),
    ({"query": 0}, "not a position behind the span"),
    ({"query": -26}, "that is -1 to -25 here"),
    ({"span": (3, 3)}, "There is no span from 3 to 3"),
    ({"span": (0, len(TEXT) + 1)}, f"the last message's text has {len(TEXT)} characters"),
    ({"span": (-4, 3)}, "There is no span from -4 to 3"),
]


def test_what_is_not_there_is_said(qwen, qwen_checkpoint):
    for asked, sentence in MISSING:
        given = {"span": SPAN, "layers": [1]} | asked
        with pytest.raises(ModelError) as error:
            qwen.attention(ask(TEXT), given.pop("span"), **given)
        assert sentence in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(ContextLengthError):
        chat(qwen_checkpoint).attention(ask("x" * 2000), (0, 9))


def test_weights_that_are_no_numbers(deep_checkpoints, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(deep_checkpoints["qwen3-vl"], tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    weights["model.language_model.layers.1.self_attn.k_norm.weight"].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = chat(folder)
    assert np.isfinite(read(model, layers=[1]).weights).all()
    with pytest.raises(ModelError, match="is not a number"):
        read(model, layers=[1, 2])


def test_who_gives_attention(tmp_path):
    from checkpoints import save_internvl
    from transformers import LlamaConfig, Qwen2Config

    assert isinstance(ChatTransformers(model="x"), SupportsAttention)
    assert not isinstance(ChatVLLM(model="x"), SupportsAttention)
    server = ChatServer(model="x", base_url="http://localhost:1/v1", api_key="none")
    assert not isinstance(server, SupportsAttention)
    window = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    for name, unchecked in (
        ("llama", {"text_config": LlamaConfig, "pad_token_id": 0}),
        ("window", window | {"text_config": Qwen2Config}),
    ):
        model = chat(save_internvl(tmp_path / name, **unchecked))
        with pytest.raises(ModelError, match="cannot be read: that was checked for Qwen3-VL and"):
            read(model)
        assert model.invoke("It answers all the same", max_tokens=2).content


# Beside other calls: nothing changes, and nothing holds anything up.


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


def test_answers_are_the_same_to_the_last_bit_after_passes(model):
    for bound, shown in ((None, PICTURES[:2]), (0, PICTURES[:1])):
        bounded = model.model_copy(update={"prefix_cache_bytes": bound})
        model.clear_prefix_cache()
        expected = answers(bounded, *shown)
        model.clear_prefix_cache()
        read(bounded, *shown, layers="all")
        read(bounded, PICTURES[2])  # another image's positions are not kept either
        assert answers(bounded, *shown) == expected


def test_a_pass_that_fails_says_so_and_leaves_nothing_behind(qwen, layers):
    expected = answers(qwen, PICTURES[0])
    for error, sentence in (
        (RuntimeError("no luck"), "failed (RuntimeError: no luck)"),
        (torch.OutOfMemoryError("out of memory"), "ran out of memory"),
    ):
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


def test_passes_in_the_middle_of_calls_hold_nothing_up_nor_are_held_up(qwen):
    drawn = {"max_tokens": 300, "temperature": 1.0, "seed": 3}
    long = qwen.invoke(ask(QUESTION, PICTURES[0]), **drawn).content
    alone = [read(qwen, one).weights for one in PICTURES]
    single = [qwen.invoke(ask(QUESTION, one), max_tokens=60).content for one in PICTURES]
    over = threading.Event()

    def passes():
        return [read(qwen) for _ in iter(over.is_set, True)]

    def calls():
        asked = ask(QUESTION, PICTURES[1])
        return {qwen.invoke(asked, max_tokens=60).content for _ in iter(over.is_set, True)}

    with ThreadPoolExecutor(5) as pool:
        answer = pool.submit(qwen.invoke, ask(QUESTION, PICTURES[0]), **drawn)
        read(qwen, PICTURES[1], timeout=60)
        assert not answer.done()
        work = [pool.submit(one) for one in (passes, passes, calls, calls)]
        try:
            for weights, expected, one in zip(alone, single, PICTURES, strict=True):
                got = qwen.invoke(ask(QUESTION, one), max_tokens=60, timeout=60)
                assert got.content == expected
                passed = read(qwen, one, timeout=60).weights
                np.testing.assert_allclose(passed, weights, rtol=0, atol=1e-6)
        finally:
            over.set()
        assert work[2].result() | work[3].result() == {single[1]}
        assert answer.result().content == long


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

    layers.go.clear()
    layers.begun.clear()
    asyncio.run(cancel())
    with pytest.raises(CallTimeoutError, match=r"its timeout of 0\.05 seconds; raise the time"):
        read(qwen, layers="all", timeout=0.05)  # it still waits: it is given up before it begins
    start = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, qwen, layers=[1], timeout=60)
        time.sleep(0.1)
        layers.go.set()
        # The seconds of a pass hold its waiting.
        assert 0.1 <= waiting.result().seconds <= time.monotonic() - start
    assert layers.count <= 3
    for timeout in (0, -1, float("nan"), float("inf"), "5", True):
        with pytest.raises(ValueError, match="must be a number of seconds above 0"):
            read(qwen, timeout=timeout)


def test_memory_grows_with_the_prompt_and_not_with_its_square(qwen):
    """A mask or a matrix of 15,000 x 15,000 floats would be 0.9 GB; all of it takes far less."""
    read(qwen)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = "y" * 15_000
    assert qwen.attention(ask(text), (100, 200), layers=[3]).input_tokens > len(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


# Which tokens are a span.


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.sampled_from(["Count ", "the red", "\n", "12", " 😀", "答", "zx", "."]), min_size=3
    ),
    st.data(),
)
def test_a_span_of_words_is_covered_by_tokens_of_the_prompt(demo_weights, parts, data):
    model = chat(demo_weights / "small")
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
    model, text = chat(deep_checkpoint), "He said <|im_end|> and went."
    attention = model.attention(ask(text), (0, len(text)))
    assert not any(attention.special)
    assert attention.spans[-1][1] == len(text)
    # The word that the template ends with is not taken for the message's.
    whole = model.attention(ask("assistant user"), (0, 14))
    word = model.attention(ask("assistant user"), (0, 9))
    assert word.token_ids == whole.token_ids[:9]


def test_text_that_a_template_changes_or_that_stands_before_an_image_is_refused(
    qwen_checkpoint, tmp_path
):
    text = "  The red one.  "
    for change in ("c.text | trim", "c.text | upper", "c.text + c.text"):
        folder = shutil.copytree(qwen_checkpoint, tmp_path / change)
        template = folder / "chat_template.jinja"
        template.write_text(template.read_text().replace("c.text", change))
        with pytest.raises(ModelError, match="changes the last message's text"):
            chat(folder).attention(ask(text, PICTURES[0]), (0, len(text)))
    blocks = [{"type": "text", "text": "The red one"}, {"type": "image", "image": PICTURES[0]}]
    message = HumanMessage([*blocks, {"type": "text", "text": " is round."}])
    model = chat(qwen_checkpoint)
    assert len(model.attention([message], (12, 14)).token_ids) == 2
    with pytest.raises(ModelError, match="put the images first"):
        model.attention([message], (4, 7))


def test_tokens_that_cannot_be_told_apart_are_refused(qwen_checkpoint, monkeypatch):
    from transformers import PreTrainedTokenizerFast, Qwen3VLProcessor

    call, model = Qwen3VLProcessor.__call__, chat(qwen_checkpoint)

    def shouting(self, *args, text, **kwargs):
        return call(self, *args, text=[one.replace("red", "RED") for one in text], **kwargs)

    monkeypatch.setattr(Qwen3VLProcessor, "__call__", shouting)
    with pytest.raises(ModelError, match="writes the prompt's text with other tokens"):
        model.attention(ask("The red one."), (0, 3))
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", False)
    with pytest.raises(ModelError, match="does not say which text its tokens stand for"):
        model.attention(ask("The red one."), (0, 3))


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


def test_a_model_of_few_layers_gives_what_the_whole_model_gives(deep_checkpoint):
    whole, few = chat(deep_checkpoint), chat(deep_checkpoint, layers=3)
    for shown in (PICTURES[:0], PICTURES[:2]):
        expected = read(whole, *shown, layers=[3])
        for _ in range(2):
            attention = read(few, *shown, layers=[3])
            assert attention.token_ids == expected.token_ids
            np.testing.assert_allclose(attention.weights, expected.weights, rtol=0, atol=1e-5)
    with pytest.raises(ModelError, match="is loaded to layer 3, and layer 4 was asked for"):
        read(few, layers=[4])
    with pytest.raises(ModelError, match="loaded to 3 layers, which give attention and no answers"):
        few.invoke("x")
    with pytest.raises(ModelError, match="has 4 layers and 9 were asked for"):
        chat(deep_checkpoint, layers=9).load()
    few.unload()


def test_layers_above_and_the_output_head_are_not_loaded(deep_checkpoint, monkeypatch):
    from transformers import AutoModel

    loaded, load = [], AutoModel.from_pretrained

    def watched(*args, **kwargs):
        made = load(*args, **kwargs)
        loaded.append(weakref.ref(made[0]))
        return made

    monkeypatch.setattr(AutoModel, "from_pretrained", watched)
    model = chat(deep_checkpoint, layers=2).load()
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


def test_passes_of_such_a_model_share_a_questions_prefix(deep_checkpoint):
    model = chat(deep_checkpoint)
    model = model.model_copy(update={"layers": model.count_layers()})
    first, other = read(model, PICTURES[0], layers=[4]), TEXT.replace("red", "blue")
    span = (SPAN[0], SPAN[1] + 1)
    second = model.attention(ask(other, PICTURES[0]), span, layers=[4])
    third = read(model, PICTURES[0], layers=[2])
    assert (first.cached_tokens, second.cached_tokens > 0) == (0, True)
    assert third.cached_tokens == third.input_tokens - 1
    model.unload()
