"""Which tokens of a prompt are a stretch of its last message's text."""

import json
import shutil

import pytest
from attention_prompts import PICTURES, ask
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langgraph_mai.models import ChatTransformers, ModelError
from langgraph_mai.models.transformers.attention_span import token_spans

TEXT = "How many? Well, the red ones: 3. 答え is 😀 three.\n\nAnswer the question directly."


def chat(folder):
    return ChatTransformers(model=str(folder), dtype="float32", device="cpu")


def with_template(checkpoint, folder, change):
    shutil.copytree(checkpoint, folder)
    template = folder / "chat_template.jinja"
    template.write_text(change(template.read_text()))
    return chat(folder)


@pytest.mark.parametrize(
    ("offsets", "span", "expected"),
    [
        ([(0, 2), (2, 5), (5, 6)], (0, 6), [(0, (0, 2)), (1, (2, 5)), (2, (5, 6))]),
        # Tokens that are partly in the stretch belong to it, with what is in it.
        ([(0, 2), (2, 5), (5, 6)], (1, 4), [(0, (0, 1)), (1, (1, 3))]),
        ([(0, 2), (2, 5), (5, 6)], (2, 5), [(1, (0, 3))]),
        # White space that is counted to no token.
        ([(0, 2), (3, 5), (6, 7)], (0, 7), [(0, (0, 2)), (1, (2, 5)), (2, (5, 7))]),
        # One character of several tokens, with and without others around it.
        ([(0, 1), (1, 2), (1, 2), (1, 2)], (1, 2), [(1, (0, 1)), (2, (0, 1)), (3, (0, 1))]),
        (
            [(0, 2), (1, 2), (1, 3), (3, 4)],
            (0, 4),
            [(at, (0, 3)) for at in range(3)] + [(3, (3, 4))],
        ),
        # Tokens that stand for nothing.
        ([(0, 0), (0, 2), (2, 2), (2, 3)], (0, 3), [(1, (0, 2)), (3, (2, 3))]),
    ],
)
def test_spans(offsets, span, expected):
    assert token_spans(offsets, span) == expected


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1),
    st.data(),
)
def test_spans_cover_the_stretch_in_order_and_overlap_only_where_they_are_the_same(steps, data):
    """Each token begins at or before the end of those before it, and not before the last one."""
    offsets, end, first = [], 0, 0
    for back, length in steps:
        first = max(first, end - back)
        offsets.append((first, first + length))
        end = max(end, first + length)
    start = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(start, end))
    found = token_spans(offsets, (start, stop))
    assert [at for at, _ in found] == sorted({at for at, _ in found})
    covered = 0
    for before, (_, (first, last)) in zip([None, *found], found, strict=False):
        assert 0 <= first < last <= stop - start
        assert first == covered or before[1] == (first, last)
        covered = last
    assert covered == stop - start


@pytest.mark.parametrize("size", ["small", "large"])
@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.sampled_from(["Count ", "the red", "\n", "12", " 😀", "答", "zx", "."]), min_size=3
    ),
    st.data(),
)
def test_a_tokenizer_with_words(demo_weights, size, parts, data):
    """The stretch's tokens are those of the prompt, and together they stand for all of it."""
    model = chat(demo_weights / size)
    text = "".join(parts)
    start = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(start + 1, len(text)))
    attention = model.attention(ask(text), (start, stop))
    tokens = model.prompt_token_ids(ask(text))
    length = len(attention.token_ids)
    assert list(attention.token_ids) in [tokens[at : at + length] for at in range(len(tokens))]
    letters = {at for first, last in attention.spans for at in range(first, last)}
    assert letters == set(range(stop - start))


def test_words_and_letters_of_the_demo_model(demo_weights):
    model = chat(demo_weights / "large")
    attention = model.attention(ask("There are 3 red circles."), (6, 15))
    text = "There are 3 red circles."[6:15]
    words = [text[first:last] for first, last in attention.spans]
    assert "".join(words) == text
    assert len(words) < len(text)
    assert attention.special == (False,) * len(words)


def test_special_tokens_are_told(deep_checkpoint):
    text = "He said <|im_end|> and went."
    attention = chat(deep_checkpoint).attention(ask(text), (0, len(text)))
    marks = [
        text[first:last]
        for (first, last), special in zip(attention.spans, attention.special, strict=True)
        if special
    ]
    assert marks == ["<|im_end|>"]


def test_text_that_stands_in_the_template_too(deep_checkpoint):
    """The word that the template ends with is not taken for the message's."""
    whole = chat(deep_checkpoint).attention(ask("assistant user"), (0, 14))
    word = chat(deep_checkpoint).attention(ask("assistant user"), (0, 9))
    assert word.token_ids == whole.token_ids[:9]
    assert (word.weights == whole.weights[:, :9]).all()


@pytest.mark.parametrize("filtering", ["trim", "upper", "replace('red', 'blue')"])
def test_a_template_that_changes_the_text(qwen_checkpoint, tmp_path, filtering):
    model = with_template(
        qwen_checkpoint,
        tmp_path / "m",
        lambda text: text.replace("c.text", f"c.text | {filtering}"),
    )
    text = "  The red one.  "
    with pytest.raises(ModelError, match="changes the last message's text"):
        model.attention(ask(text, PICTURES[0]), (0, len(text)))


def test_a_template_that_trims_around_the_stretch(qwen_checkpoint, tmp_path):
    model = with_template(
        qwen_checkpoint, tmp_path / "m", lambda text: text.replace("c.text", "c.text | trim")
    )
    attention = model.attention(ask("  The red one.  ", PICTURES[0]), (6, 9))
    assert attention.spans == ((0, 1), (1, 2), (2, 3))


def test_a_template_that_shows_the_text_twice(qwen_checkpoint, tmp_path):
    model = with_template(
        qwen_checkpoint, tmp_path / "m", lambda text: text.replace("c.text", "c.text + c.text")
    )
    with pytest.raises(ModelError, match="changes the last message's text"):
        model.attention(ask("The red one."), (0, 3))


def test_a_tokenizer_that_cannot_tell(qwen_checkpoint, tmp_path, monkeypatch):
    from transformers import PreTrainedTokenizerFast

    folder = shutil.copytree(qwen_checkpoint, tmp_path / "m")
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", False)
    with pytest.raises(ModelError, match="does not say which text its tokens stand for"):
        chat(folder).attention(ask("The red one."), (0, 3))


def test_a_processor_that_writes_other_tokens(qwen_checkpoint, tmp_path, monkeypatch):
    from transformers import Qwen3VLProcessor

    call = Qwen3VLProcessor.__call__

    def shouting(self, *args, text, **kwargs):
        return call(self, *args, text=[one.replace("red", "RED") for one in text], **kwargs)

    folder = shutil.copytree(qwen_checkpoint, tmp_path / "m")
    monkeypatch.setattr(Qwen3VLProcessor, "__call__", shouting)
    with pytest.raises(ModelError, match="writes the prompt's text with other tokens"):
        chat(folder).attention(ask("The red one."), (0, 3))


def test_text_in_front_of_a_picture(deep_checkpoint):
    blocks = [{"type": "text", "text": "The red one"}, {"type": "image", "image": PICTURES[0]}]
    message = HumanMessage([*blocks, {"type": "text", "text": " is round."}])
    model = chat(deep_checkpoint)
    assert len(model.attention([message], (12, 14)).token_ids) == 2
    with pytest.raises(ModelError, match="put the pictures first"):
        model.attention([message], (4, 7))
    with pytest.raises(ModelError, match="changes the last message's text"):
        model.attention([message], (4, 14))


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
