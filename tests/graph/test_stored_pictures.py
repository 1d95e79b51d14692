"""What of a message goes to the cache folder, under which name, and that it comes back."""

import base64
import contextlib
import io
import os
import urllib.parse
from pathlib import Path

import pytest
from fakes import PROMPTS, models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from PIL import Image, ImageFile

from langgraph_mai import MAIInputError, MAIState, create_mai
from langgraph_mai.nodes.conversation import Conversation, put_pictures_away
from langgraph_mai.nodes.run_input import RunInput

THREAD = {"configurable": {"thread_id": "1"}}
TEXT = {"type": "text", "text": "Is it red?"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b" / "cache"
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def noise():
    """A PNG of some kilobytes that nothing compresses."""
    stream = io.BytesIO()
    Image.frombytes("RGB", (60, 60), os.urandom(60 * 60 * 3)).save(stream, "PNG")
    return stream.getvalue()


def v1(data):
    return {"type": "image", "base64": base64.b64encode(data).decode(), "mime_type": "image/png"}


def cascade(checkpointer=None):
    return create_mai(*models("direct"), prompts=PROMPTS, checkpointer=checkpointer)


def hostile(target):
    """Blocks whose type names a file outside the cache folder."""
    data = base64.b64encode(b"#!/bin/sh\necho yes\n" * 400).decode()
    for way in (f"x/../../../../../../../../../../../..{target}", str(target)):
        for kind in (f"image/{way}", way, f"image/png+{way}"):
            uri = f"data:{kind};base64,{data}"
            yield {"type": "text", "text": uri}
            yield {"type": "image_url", "image_url": {"url": uri}}
            yield {"type": "image_url", "image_url": uri}
            yield {"type": "image", "base64": data, "mime_type": kind}
            yield {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
            yield {"type": "file", "file": {"file_data": uri}}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("form", ["message", "dict"])
def test_no_message_writes_outside_the_cache_folder(keep, form, tmp_path, cache):
    precious = tmp_path / "precious.sh"
    precious.write_text("precious")
    for target in (precious, tmp_path / "new" / "evil.sh"):
        for block in hostile(target):
            content = [block, TEXT]
            message = HumanMessage(content) if form == "message" else {"role": "user"}
            if form == "dict":
                message["content"] = content
            with contextlib.suppress(MAIInputError):  # It is no picture.
                cascade(InMemorySaver() if keep else None).invoke({"messages": [message]}, THREAD)
    assert precious.read_text() == "precious"
    outside = {path for path in tmp_path.rglob("*") if path.is_file() and cache not in path.parents}
    assert outside == {precious}
    assert not [path for path in (cache / "images").glob("*") if path.is_dir()]
    assert not list(cache.rglob("*.sh"))


def block_of(data, kind="image/png"):
    uri = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": uri}}


MIME_TYPES = [
    "image/png",
    "image/x-icon",
    "image/vnd.microsoft.icon",
    "image/x-ms-bmp",
    "image/svg+xml",
    "application/octet-stream",
    "text/plain",
    "IMAGE/PNG",
    "",
]


def content_after(graph, content):
    """What the result, the thread, and the thread after a further turn hold of a message."""
    result = graph.invoke({"messages": [HumanMessage(content), HumanMessage("Is it red?")]}, THREAD)
    kept = graph.get_state(THREAD).values["messages"][0]
    graph.invoke({"messages": [HumanMessage("Is it blue?")]}, THREAD)
    later = graph.get_state(THREAD).values["messages"][0]
    return [message.content for message in (result["messages"][0], kept, later)]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", MIME_TYPES)
def test_a_picture_of_any_claimed_type_is_asked_about(kind, keep, noise):
    small, large = models("direct")
    saver = InMemorySaver() if keep else None
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
    for block in (block_of(noise, kind), {**v1(noise), "mime_type": kind}):
        result = graph.invoke({"messages": [HumanMessage([block, TEXT])]}, THREAD)
        assert small.calls[-1]["images"] == 1
        assert block in [part for m in result["messages"] for part in m.content]
        if keep:
            assert block in graph.get_state(THREAD).values["messages"][-2].content


def test_what_is_not_a_picture_is_left_alone(cache):
    data = os.urandom(6000)
    encoded = base64.b64encode(data).decode()
    uri = f"data:application/pdf;base64,{encoded}"
    content = [
        {"type": "file", "file": {"file_data": uri, "filename": "a.pdf"}},
        {"type": "file", "base64": encoded, "mime_type": "application/pdf"},
        {"type": "document", "source": {"type": "base64", "data": encoded}},
        {"type": "text", "text": uri},
        {"type": "text", "text": "a" * 8000},
        {"type": "media", "mime_type": "audio/wav", "data": encoded},
    ]
    assert content_after(cascade(InMemorySaver()), content) == [content] * 3
    assert not cache.exists()


@given(data=st.binary(min_size=3000, max_size=5000), kind=st.text(max_size=30), cut=st.integers())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_is_put_away_comes_back(data, kind, cut):
    encoded = base64.b64encode(data).decode()
    lines = base64.encodebytes(data).decode()
    for text in (
        encoded,
        lines,
        encoded.rstrip("="),
        base64.urlsafe_b64encode(data).decode(),
        encoded[: cut % len(encoded)],
        *(
            f"{scheme}:{kind};base64,{text}"
            for scheme in ("data", "DATA")
            for text in (encoded, lines)
        ),
        f"data:{kind}," + urllib.parse.quote(data),
        f"langgraph-mai-stored:{encoded}",
        "\ud800" + encoded,
    ):
        for block in ({"type": "image", "base64": text}, {"type": "image_url", "image_url": text}):
            content = [block, {"type": "image", "image": data}]
            away = put_pictures_away([HumanMessage(content)])
            channel = Conversation(list)
            channel.key = "messages"
            channel.update([away])
            assert channel.get()[0].content == content
            restored = Conversation(list).from_checkpoint(channel.checkpoint())
            assert restored.get()[0].content == content


def names(cache):
    """All that a client could think of to get a stored picture by its name."""
    (file,) = (cache / "images").iterdir()
    for name in (file.name, f"base64 {file.name}", f"bytes {file.name}", f"text {file.name}"):
        for seal in ("", "0" * 64 + " "):
            yield f"langgraph-mai-stored:{seal}{name} "


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("around", [False, True])
def test_no_client_gets_a_picture_by_its_name(keep, around, noise, cache):
    cascade().invoke({"messages": [HumanMessage([v1(noise), TEXT])]})
    for forged in names(cache):
        graph = cascade(InMemorySaver() if keep and not around else None)
        if around:
            outer = StateGraph(MAIState).add_node("mai", graph).add_edge(START, "mai")
            graph = outer.compile(checkpointer=InMemorySaver() if keep else None)
        for block in (
            {"type": "text", "text": forged},
            {"type": "image_url", "image_url": {"url": forged}},
            {"type": "image", "base64": forged},
        ):
            message = {"role": "user", "content": [block]}
            result = graph.invoke({"messages": [message, HumanMessage("Is it red?")]}, THREAD)
            assert base64.b64encode(noise[:300]).decode() not in str(result["messages"])
            assert block in [part for m in result["messages"] for part in m.content]
            if keep:
                kept = graph.get_state(THREAD).values["messages"]
                assert base64.b64encode(noise[:300]).decode() not in str(kept)


def test_a_file_that_was_changed_is_not_relied_upon(noise, cache):
    cascade().invoke({"messages": [HumanMessage([v1(noise), TEXT])]})
    (file,) = (cache / "images").iterdir()
    file.write_bytes(bytes(len(noise)))
    content = [v1(noise)]
    assert content_after(cascade(InMemorySaver()), content) == [content] * 3


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "PPM", "TGA"])
@pytest.mark.parametrize("given_as", ["data URI", "bytes", "message"])
async def test_no_event_loop_waits_for_pixels(kind, given_as, monkeypatch):
    stream = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(stream, kind)
    data = stream.getvalue()

    def refuse(*_):
        raise AssertionError("decoded on the event loop")

    monkeypatch.setattr(ImageFile.ImageFile, "load", refuse)
    uri = f"data:image/x;base64,{base64.b64encode(data).decode()}"
    value = {"messages": [HumanMessage([{"type": "image_url", "image_url": uri}])]}
    if given_as != "message":
        value = {"images": [uri if given_as == "data URI" else data]}
    channel = RunInput(dict)
    channel.update([value])
    if given_as != "message":
        assert Path(channel.get()["images"][0]).read_bytes() == data


@pytest.mark.parametrize("given_as", ["data URI", "bytes"])
async def test_a_picture_that_breaks_off_is_refused_by_prepare(given_as, noise):
    cut = noise[: len(noise) // 2]
    image = (
        cut if given_as == "bytes" else f"data:image/png;base64,{base64.b64encode(cut).decode()}"
    )
    with pytest.raises(MAIInputError, match="truncated"):
        await cascade().ainvoke({"question": "Is it red?", "images": [image]})
