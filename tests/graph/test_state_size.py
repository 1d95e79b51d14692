"""What a run leaves in a database, measured on the file."""

import asyncio
import base64
import io
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from fakes import PROMPTS, models
from langchain_core.load import dumpd
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from PIL import Image

from langgraph_mai import MAIState, create_mai, create_mai_batch, load_pair
from langgraph_mai.models.images import load_image

THREAD = {"configurable": {"thread_id": "1"}}
INPUTS = ["path", "data URI", "DATA URI", "lines", "bytes", "PIL", "tuple"]
BLOCKS = {
    "v1": lambda data: {"type": "image", "base64": plain(data), "mime_type": "image/png"},
    "v1 in lines": lambda data: {"type": "image", "base64": lines(data)},
    "v1 for URLs": lambda data: {"type": "image", "base64": for_urls(data)},
    "v1 unpadded": lambda data: {"type": "image", "base64": plain(data).rstrip("=")},
    "v0": lambda data: {"type": "image", "source_type": "base64", "data": plain(data)},
    "OpenAI": lambda data: {"type": "image_url", "image_url": {"url": uri(plain(data))}},
    "OpenAI in capitals": lambda data: {"type": "image_url", "image_url": uri(plain(data), "DATA")},
    "OpenAI in lines": lambda data: {"type": "image_url", "image_url": {"url": uri(lines(data))}},
    "OpenAI for URLs": lambda data: {"type": "input_image", "image_url": uri(for_urls(data))},
    "OpenAI escaped": lambda data: {"type": "image_url", "image_url": uri(quote(plain(data), ""))},
    "not base64": lambda data: {"type": "image_url", "image_url": "data:image/png," + quote(data)},
    "Anthropic": lambda data: {"type": "image", "source": {"type": "base64", "data": plain(data)}},
    "Hugging Face bytes": lambda data: {"type": "image", "image": data},
    "Hugging Face PIL": lambda data: {"type": "image", "image": Image.open(io.BytesIO(data))},
    "Google": lambda data: {"type": "media", "mime_type": "image/png", "data": data},
}


def plain(data):
    return base64.b64encode(data).decode()


def lines(data):
    return base64.encodebytes(data).decode()


def for_urls(data):
    return base64.urlsafe_b64encode(data).decode()


def uri(encoded, scheme="data"):
    return f"{scheme}:image/png;base64,{encoded}"


MESSAGES = {
    "message": HumanMessage,
    "dict": lambda content: {"role": "user", "content": content},
    "dict of LangChain": lambda content: dumpd(HumanMessage(content)),
    "tuple": lambda content: ("human", content),
    "list": lambda content: ["human", content],
}
FORMS = [*INPUTS, "message", "message as dict", "message with path"]


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """A PNG of more than 10 MB that nothing compresses."""
    path = tmp_path_factory.mktemp("pictures") / "noise.png"
    Image.frombytes("RGB", (1900, 1850), os.urandom(1900 * 1850 * 3)).save(path)
    assert path.stat().st_size > 10_000_000
    return path


def given_as(form, picture):
    text = {"type": "text", "text": "Is it red?"}
    encoded = base64.b64encode(picture.read_bytes()).decode()
    block = {"type": "image", "base64": encoded, "mime_type": "image/png"}
    if form == "message":
        return {"messages": [HumanMessage([text, block])]}
    if form == "message as dict":
        return {"messages": [{"role": "user", "content": [text, block]}]}
    if form == "message with path":
        named = {"type": "image_url", "image_url": {"url": str(picture)}}
        return {"messages": [HumanMessage([text, named])]}
    images = {
        "path": str,
        "data URI": lambda _path: f"data:image/png;base64,{encoded}",
        "DATA URI": lambda _path: f"DATA:image/png;base64,{encoded}",
        "lines": lambda path: uri(lines(path.read_bytes())),
        "bytes": Path.read_bytes,
        "tuple": lambda path: (path.read_bytes(),),
        "PIL": lambda path: Image.open(io.BytesIO(path.read_bytes())),
    }
    image = images[form](picture)
    return {"question": "Is it red?", "images": image if form == "tuple" else [image]}


def size(path):
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_large_picture_leaves_a_small_file(form, way, picture, tmp_path):
    path = tmp_path / "threads.sqlite"
    small, large = models("transferred")
    given = given_as(form, picture)

    async def arun():
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
            return await graph.ainvoke(given, THREAD)

    if way == "invoke":
        with SqliteSaver.from_conn_string(str(path)) as saver:
            graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
            result = graph.invoke(given, THREAD)
    else:
        result = asyncio.run(arun())
    assert result["route"] == "transferred"
    assert small.calls[0]["images"] == 1
    assert size(path) < 100_000


def test_the_demo_pair_too(picture, tmp_path):
    path = tmp_path / "threads.sqlite"
    pair = load_pair()
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = create_mai(pair.small, pair.large, prompts=pair.prompts, checkpointer=saver)
        graph.invoke(given_as("message", picture), THREAD)
    assert size(path) < 100_000


def test_as_a_subgraph_too(picture, tmp_path):
    path = tmp_path / "threads.sqlite"
    graph = StateGraph(MAIState)
    graph.add_node("mai", create_mai(*models("transferred"), prompts=PROMPTS))
    graph.add_edge(START, "mai")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph.compile(checkpointer=saver).invoke(given_as("path", picture), THREAD)
    assert size(path) < 150_000  # two graphs' checkpoints


def stored_size(messages, path):
    with SqliteSaver.from_conn_string(str(path)) as saver:
        small, large = models("transferred")
        graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
        result = graph.invoke({"messages": messages}, THREAD)
        kept = graph.get_state(THREAD).values["messages"]
    assert small.calls[0]["images"] == 1
    assert result["messages"][0].content == kept[0].content
    return size(path), kept[0].content


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_of_a_picture_leaves_a_small_file(block, picture, tmp_path):
    text = {"type": "text", "text": "Is it red?"}
    content = [text, BLOCKS[block](picture.read_bytes())]
    stored, kept = stored_size([HumanMessage(content)], tmp_path / "threads.sqlite")
    assert stored < 100_000
    if block == "Hugging Face PIL":
        assert load_image(kept[1]["image"]).tobytes() == content[1]["image"].tobytes()
    else:
        assert kept == content


@pytest.mark.parametrize(
    ("form", "alone"),
    # A list alone is a list of messages.
    [*((form, False) for form in MESSAGES), *((form, True) for form in MESSAGES if form != "list")],
)
def test_every_form_of_a_message_leaves_a_small_file(form, alone, picture, tmp_path):
    content = [{"type": "text", "text": "Is it red?"}, BLOCKS["v1"](picture.read_bytes())]
    message = MESSAGES[form](content)
    stored, kept = stored_size(message if alone else [message], tmp_path / "threads.sqlite")
    assert stored < 100_000
    assert kept == content


@pytest.mark.parametrize("many", [list, tuple])
@pytest.mark.parametrize("form", ["data URI", "bytes", "PIL"])
def test_many_questions_too(form, many, picture, tmp_path):
    path = tmp_path / "threads.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        mai = create_mai(*models("direct"), prompts=PROMPTS)
        batch = create_mai_batch(mai, checkpointer=saver)
        asked = given_as(form, picture)
        result = batch.invoke({"questions": many([asked, asked])}, THREAD)
    assert [answer["answer"] for answer in result["answers"]] == ["yes", "yes"]
    assert size(path) < 150_000  # three graphs' checkpoints


@pytest.mark.parametrize("form", ["message", "message as dict"])
def test_who_reads_the_conversation_sees_the_pictures(form, picture, tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = create_mai(*models("direct"), prompts=PROMPTS, checkpointer=saver)
        result = graph.invoke(given_as(form, picture), THREAD)
        kept = graph.get_state(THREAD).values["messages"][0]
    encoded = base64.b64encode(picture.read_bytes()).decode()
    for message in (result["messages"][0], kept):
        assert message.content[1]["base64"] == encoded


def test_a_picture_that_cannot_be_used_is_still_refused(tmp_path):
    graph = create_mai(*models("direct"), prompts=PROMPTS)
    from langgraph_mai import MAIInputError

    for broken in (b"no picture", "data:image/png;base64,AAAA", 7):
        with pytest.raises(MAIInputError):
            graph.invoke({"question": "Is it red?", "images": [broken]})


def test_a_pil_picture_can_be_given_with_a_checkpointer(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = create_mai(*models("direct"), prompts=PROMPTS, checkpointer=saver)
        drawn = Image.new("RGB", (40, 40), "red")
        assert graph.invoke({"question": "Is it red?", "images": drawn}, THREAD)["answer"] == "yes"
        stream = io.BytesIO()
        drawn.save(stream, "PNG")
        given = {"question": "Is it red?", "images": stream.getvalue()}
        assert graph.invoke(given, THREAD)["answer"] == "yes"
