"""Tokens to text piece by piece: nothing lost, nothing doubled, cut before a stop string."""

from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.models.completion import TextStream


def byte_decoder(tokens):
    """Each token is a byte; 256 and above are special tokens and leave no text."""
    return bytes(token for token in tokens if token < 256).decode("utf-8", "replace")


def word_decoder(tokens):
    """Like SentencePiece: words carry their blank in front, and a text's first one loses it."""
    words = ["▁yes", "▁no", "▁a", "b", "▁"]
    return "".join(words[token] for token in tokens).replace("▁", " ").removeprefix(" ")


def run(decode, tokens, stop=()):
    stream = TextStream(decode, stop)
    chunks = []
    for token in tokens:
        chunks.append(stream.push(token))
        if stream.stopped:
            break
    chunks.append(stream.finish())
    assert "".join(chunks) == stream.text
    return stream, chunks


@given(st.text(max_size=40))
def test_the_chunks_of_a_text_are_the_text(text):
    stream, chunks = run(byte_decoder, text.encode())
    assert stream.text == text
    assert all("\ufffd" not in chunk for chunk in chunks) or "\ufffd" in text


@given(st.lists(st.integers(0, 300), max_size=40))
def test_the_chunks_of_any_tokens_are_their_text(tokens):
    stream, _ = run(byte_decoder, tokens)
    assert stream.text == byte_decoder(tokens)


@given(st.lists(st.integers(0, 4), max_size=30))
def test_blanks_between_words_are_kept(tokens):
    stream, _ = run(word_decoder, tokens)
    assert stream.text == word_decoder(tokens)


@given(st.text("ab\n", max_size=40), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_the_text_ends_before_the_first_stop_string_and_none_is_taken_back(text, stop):
    stream, chunks = run(byte_decoder, text.encode(), stop)
    ends = [text.index(string) for string in stop if string in text]
    # A later stop string may be complete earlier: then the text ends there.
    assert stream.stopped == bool(ends)
    assert all(text.startswith("".join(chunks[:at])) for at in range(len(chunks) + 1))
    assert all(string not in stream.text for string in stop)
    if not ends:
        assert stream.text == text


def test_what_is_released_when():
    for text, stop, chunks in (
        ("aENx", ["END"], ["a", "", "", "ENx"]),
        ("aE", ["END"], ["a", "", "E"]),
        ("é!", [], ["", "é", "!"]),  # half a character waits for its rest
    ):
        assert run(byte_decoder, text.encode(), stop)[1][: len(chunks)] == chunks
    for cut in (1, 2, 3):  # an unfinished character is shown at the end
        stream, _ = run(byte_decoder, "a😀".encode()[: 1 + cut])
        assert stream.text == "a\ufffd"
