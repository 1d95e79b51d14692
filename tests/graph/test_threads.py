"""Threads: what the next run sees of a former one, and what checkpoints hold of an image."""

import base64
import io
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from fakes import PROMPTS, QUESTION, models
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from PIL import Image
from typing_extensions import TypedDict

from langgraph_mai import MAIError, MAIInputError, create_mai
from langgraph_mai.models.images import clear_image_cache

THREAD = {"configurable": {"thread_id": "1"}}
FOLLOW_UP = {"messages": [HumanMessage("Is it blue?")]}
MB = 1_000_000


@pytest.fixture(scope="module")
def noise():
    """A PNG that nothing compresses; its base64 is 1.0 MB."""
    stream = io.BytesIO()
    Image.frombytes("RGB", (500, 500), os.urandom(750_000)).save(stream, "PNG")
    return stream.getvalue()


def block(data):
    return {"type": "image", "base64": base64.b64encode(data).decode(), "mime_type": "image/png"}


def message(data):
    return {"messages": [HumanMessage([{"type": "text", "text": "Is it red?"}, block(data)])]}


def as_uri(data):
    uri = "data:image/png;base64," + base64.b64encode(data).decode()
    return {"question": "Is it red?", "images": [uri]}


def mai(route="transferred", saver=None, **options):
    return create_mai(*models(route), prompts=PROMPTS, checkpointer=saver, **options)


def test_a_second_question_starts_afresh(checkpointer):
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer)
    first = graph.invoke(QUESTION | {"answer_type": "yes_no"}, THREAD)
    assert (first["route"], len(first["calls"])) == ("transferred", 4)

    small.script["direct"] = large.script["direct"] = "3"
    second = graph.invoke(QUESTION | {"question": "How many dots are there?"}, THREAD)
    assert (second["answer"], second["value"], second["route"]) == ("3", 3.0, "direct")
    assert [call["kind"] for call in second["calls"]] == ["number", "number"]
    assert [message.text for message in second["messages"]] == [
        "Is it red?",
        "yes",
        "How many dots are there?",
        "3",
    ]


@pytest.mark.parametrize("ending", ["answered", "failed", "refused"])
def test_no_run_sees_the_former_input(checkpointer, ending, noise):
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer)
    given = as_uri(noise) | {"question": "Which?", "choices": ["yes", "no"]}
    if ending == "answered":
        graph.invoke(given, THREAD)
    elif ending == "failed":
        small.script["direct"] = large.script["direct"] = RuntimeError("busy")
        with pytest.raises(MAIError):
            graph.invoke(given, THREAD)
        small.script["direct"] = large.script["direct"] = "yes"
    else:
        with pytest.raises(MAIInputError):
            graph.invoke(given | {"choices": ["yes", "yes"]}, THREAD)
    small.calls.clear()
    with pytest.raises(MAIInputError, match="There is no image"):
        graph.invoke(FOLLOW_UP, THREAD)
    assert small.calls == []
    graph.invoke(message(noise), THREAD)
    assert not graph.get_state(THREAD).values.get("image_data")


class Parent(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    answer: str


def in_parent(node):
    def build(saver):
        return StateGraph(Parent).add_node("mai", node).add_edge(START, "mai").compile(saver)

    return build


def wrapper(state):
    return {"messages": mai().invoke({"messages": state["messages"]})["messages"][-1:]}


def row_bytes(path):
    """Bytes of all rows of a database."""
    with sqlite3.connect(path) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [row for (name,) in tables for row in database.execute(f"SELECT * FROM {name}")]
    return sum(len(value) for row in rows for value in row if isinstance(value, bytes | str))


@pytest.mark.parametrize(
    ("build", "given", "first", "more"),
    [
        (lambda saver: mai(saver=saver), message, 2.5, 0.3),
        (lambda saver: mai(saver=saver, require_images=False), as_uri, 3.5, 0.3),
        # Of a parent with `add_messages`, what comes on top of an empty node: 4.0, 3.0 per run.
        (in_parent(mai()), message, 4.02 + 3.1, 3.02 + 3.1),
        (in_parent(wrapper), message, 4.02 + 2.1, 3.02 + 2.1),
    ],
    ids=["message", "data", "parent", "wrapper"],
)
def test_a_megabyte_image_leaves_a_few(build, given, first, more, noise, tmp_path):
    path = tmp_path / "threads.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build(saver)
        graph.invoke(given(noise), THREAD)
        after_one = row_bytes(path)
        graph.invoke(FOLLOW_UP, THREAD)
        after_two = row_bytes(path)
        assert after_one <= first * MB
        assert after_two - after_one <= more * MB
        saver.delete_thread("1")
        assert row_bytes(path) == 0


def test_a_path_leaves_no_pixels(checkpointer, noise, tmp_path):
    path = tmp_path / "noise.png"
    path.write_bytes(noise)
    block_of_path = {"type": "image_url", "image_url": {"url": str(path)}}
    text = {"type": "text", "text": "Is it red?"}
    graph = mai(saver=checkpointer)
    graph.invoke({"question": "Is it red?", "images": [str(path)]}, THREAD)
    graph.invoke({"messages": [HumanMessage([block_of_path, text])]}, THREAD)
    stored = 0
    for saved in checkpointer.list(THREAD):
        stored += len(checkpointer.serde.dumps_typed(saved.checkpoint)[1])
        stored += sum(len(checkpointer.serde.dumps_typed(w)[1]) for w in saved.pending_writes or [])
    assert stored < 100_000


def test_the_conversation_keeps_its_images(checkpointer, noise):
    graph = mai(saver=checkpointer)
    result = graph.invoke(message(noise), THREAD)
    graph.invoke(FOLLOW_UP, THREAD)
    kept = graph.get_state(THREAD).values["messages"]
    assert result["messages"][0].content[1] == kept[0].content[1] == block(noise)
    again = graph.get_state(THREAD).values["messages"]
    assert [one.id for one in again] == [one.id for one in kept]
    assert all(one.id for one in kept)


@pytest.mark.parametrize("given", [message, as_uri], ids=["message", "data"])
def test_a_review_is_resumed_where_nothing_is_decoded(given, noise, checkpointer, run):
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer, review=True)
    graph.invoke(given(noise), THREAD)
    clear_image_cache()
    result = graph.invoke(Command(resume=""), THREAD)
    assert (result["route"], large.calls[-1]["images"]) == ("transferred", 1)
    assert not graph.get_state(THREAD).values.get("image_data")


def test_an_image_that_changed_meanwhile_costs_no_answer(tmp_path):
    path = tmp_path / "red.png"
    Image.new("RGB", (40, 40), "red").save(path)
    small, large = models("transferred")

    def reason(_prompt):
        clear_image_cache()
        Image.new("RGB", (40, 40), "blue").save(path)
        return "Hm.\nAnswer: no"

    small.script["reason"] = reason
    graph = create_mai(small, large, prompts=PROMPTS)
    result = graph.invoke({"question": "Is it red?", "images": [str(path)]})
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert "red.png' was changed while the run was under way" in result["calls"][-1]["error"]


KILLED = """
import os, sys
sys.path[:0] = [{tests!r}]
from fakes import PROMPTS, QUESTION, models
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph_mai import create_mai
small, large = models("transferred")
if sys.argv[2] == "kill":
    small.script["reason"] = lambda _prompt: os.kill(os.getpid(), 9)
with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=saver)
    given = {{"question": "Is it red?", "images": [sys.stdin.read()]}}
    thread = {{"configurable": {{"thread_id": "1"}}}}
    graph.invoke(given if sys.argv[2] == "kill" else None, thread, durability="sync")
print(len(small.calls), len(large.calls), large.calls[-1]["images"])
"""


def test_a_killed_run_goes_on_in_another_process_and_home(noise, tmp_path):
    code = KILLED.format(tests=str(Path(__file__).parents[1]))
    uri = as_uri(noise)["images"][0]

    def process(what):
        home = tmp_path / what
        home.mkdir()
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "threads.sqlite"), what],
            input=uri if what == "kill" else "",
            env={**os.environ, "HOME": str(home), "LANGGRAPH_MAI_CACHE": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert process("kill").returncode == -9
    assert process("resume").stdout.split() == ["1", "1", "1"]  # reasoning and transfer only


def test_a_thread_can_be_forked(noise):
    saver = InMemorySaver()
    graph = mai("direct", saver)
    graph.invoke(message(noise), THREAD)
    former = graph.get_state(THREAD)
    graph.invoke(FOLLOW_UP, THREAD)
    graph.update_state(former.config, {"messages": [HumanMessage("Hello")]})
    texts = [one.text for one in graph.get_state(THREAD).values["messages"]]
    assert texts == ["Is it red?", "yes", "Hello"]
    newest = next(graph.get_state_history(THREAD))
    assert len(newest.values["messages"]) == 3
