import base64
import io
import os
import shutil

import pytest
from fakes import PROMPTS, models
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import MAIInputError, create_mai
from langgraph_mai.nodes.conversation import Conversation

THREAD = {"configurable": {"thread_id": "1"}}


@pytest.fixture
def noise():
    """A PNG of about half a megabyte that nothing compresses."""
    picture = Image.frombytes("RGB", (400, 400), os.urandom(400 * 400 * 3))
    data = io.BytesIO()
    picture.save(data, "PNG")
    return data.getvalue()


def test_a_second_question_starts_afresh(checkpointer):
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer)
    first = graph.invoke({"question": "Is it red?", "answer_type": "yes_no"}, THREAD)
    assert (first["route"], len(first["calls"])) == ("transferred", 4)

    small.script["direct"] = large.script["direct"] = "3"
    second = graph.invoke({"question": "How many dots are there?"}, THREAD)
    assert (second["answer"], second["route"], second["fallback"]) == ("3", "direct", None)
    assert [call["kind"] for call in second["calls"]] == ["number", "number"]
    assert [message.text for message in second["messages"]] == ["yes", "3"]


def test_images_and_choices_do_not_reach_the_next_question(checkpointer, tmp_path):
    path = tmp_path / "red.png"
    Image.new("RGB", (40, 40), "red").save(path)
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer)
    graph.invoke({"question": "Which?", "images": [str(path)], "choices": ["yes", "no"]}, THREAD)
    graph.invoke({"messages": [HumanMessage("Is it red?")]}, THREAD)
    assert small.calls[-1]["images"] == 0
    assert small.calls[-1]["prompt"] == "Is it red?\nDIRECT"


def test_a_refused_input_does_not_reach_the_next_question(checkpointer):
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer)
    with pytest.raises(MAIInputError):
        graph.invoke({"question": "Is it red?", "images": ["/nowhere.png"]}, THREAD)
    result = graph.invoke({"messages": [HumanMessage("Is it blue?")]}, THREAD)
    assert result["answer"] == "yes"
    assert small.calls[-1]["prompt"] == "Is it blue?\nDIRECT"


@pytest.mark.parametrize("route", ["direct", "transferred"])
def test_the_state_holds_no_pictures(checkpointer, noise, route, tmp_path, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path))
    path = tmp_path / "noise.png"
    path.write_bytes(noise)
    graph = create_mai(*models(route), prompts=PROMPTS, checkpointer=checkpointer)
    graph.invoke({"question": "Is it red?", "images": [str(path)]}, THREAD)
    assert stored_bytes(checkpointer) < 40_000


def stored_bytes(checkpointer) -> int:
    sizes = []
    for saved in checkpointer.list(THREAD):
        sizes.append(len(checkpointer.serde.dumps_typed(saved.checkpoint)[1]))
        sizes += [len(checkpointer.serde.dumps_typed(w)[1]) for w in saved.pending_writes or []]
    return sum(sizes)


def test_a_picture_inside_a_message_is_stored_once(checkpointer, noise, tmp_path, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path))
    data = base64.b64encode(noise).decode()
    block = {"type": "image", "base64": data, "mime_type": "image/png"}
    given = {"messages": [HumanMessage([{"type": "text", "text": "Is it red?"}, block])]}
    graph = create_mai(*models("transferred"), prompts=PROMPTS, checkpointer=checkpointer)
    graph.invoke(given, THREAD)

    assert stored_bytes(checkpointer) < 2.5 * len(data)
    (message, _) = graph.get_state(THREAD).values["messages"]
    assert message.content[1] == block


@pytest.mark.parametrize("form", ["message", "dict"])
def test_a_server_may_hand_messages_over_as_dicts(form, noise, tmp_path, monkeypatch):
    """What LangGraph's server restores from its own storage."""
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path))
    block = {
        "type": "image",
        "base64": base64.b64encode(noise).decode(),
        "mime_type": "image/png",
    }
    channel = Conversation(list)
    channel.key = "messages"
    channel.update([[HumanMessage([block], id="1")]])
    (stored,) = channel.checkpoint()
    kept = stored if form == "message" else stored.model_dump()
    (restored,) = Conversation(list).from_checkpoint([kept]).get()
    content = restored.content if form == "message" else restored["content"]
    assert content == [block]
    assert len(str(stored.content)) < 500


def test_a_name_in_a_message_opens_no_file(checkpointer, tmp_path, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path))
    (tmp_path / "images").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    forged = {"type": "text", "text": "langgraph-mai-stored:../secret.txt "}
    given = {"messages": [HumanMessage([{"type": "text", "text": "Is it red?"}, forged])]}
    graph = create_mai(*models(), prompts=PROMPTS, checkpointer=checkpointer)
    graph.invoke(given, THREAD)
    assert graph.get_state(THREAD).values["messages"][0].content[1] == forged


def test_a_picture_whose_file_is_gone_is_told_when_it_is_asked(
    checkpointer, noise, tmp_path, monkeypatch
):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path / "cache"))
    block = {
        "type": "image",
        "base64": base64.b64encode(noise).decode(),
        "mime_type": "image/png",
    }
    text = {"type": "text", "text": "Is it red?"}
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=checkpointer)
    graph.invoke({"messages": [HumanMessage([text, block])]}, THREAD)
    shutil.rmtree(tmp_path / "cache")

    with pytest.raises(MAIInputError, match="A picture of this conversation is gone") as error:
        graph.invoke({"messages": []}, THREAD)
    assert "\n" not in str(error.value)
    # The rest of the thread can still be read, and goes on.
    assert graph.get_state(THREAD).values["messages"][0].content[0] == text
    assert graph.invoke({"messages": [HumanMessage("Is it blue?")]}, THREAD)["answer"] == "yes"
