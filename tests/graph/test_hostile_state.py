"""State is input: on a server, who may start a run may write any key of it, and go anywhere."""

import pytest
from fakes import PROMPTS, ScriptedModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_mai import MAIError, MAIInputError, create_mai

TASK = {"question": "?", "images": [], "choices": [], "answer_type": "yes_no"}
ROWS = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}}
SCHEMA = {"properties": {"count": {"type": "integer"}, "rows": ROWS}}
CALL = {
    "role": "small", "style": "direct", "text": "", "reasoning": "", "images": 0, "answer": "{}",
    "value": None, "unit": "", "kind": "free_text", "input_tokens": None, "output_tokens": None,
    "cached_tokens": None, "seconds": 0.1, "finish_reason": None, "cut": None, "probability": None,
    "error": None, "cached": False,
}  # fmt: skip
SECRET = "the secret of a file"
STATES = [
    {},
    {"task": 5},
    {"task": {**TASK, "images": ["/etc/hostname"]}},
    {"task": {**TASK, "choices": "AB"}},
    {"task": {**TASK, "choices": [b"A"]}},
    {"task": {**TASK, "question": b"?"}},
    {"task": {**TASK, "answer_type": "auto"}},
    {"task": {**TASK, "settings": {"prompts": "../prompts/default"}}},
    {"task": {**TASK, "settings": {"timeout": -1}}},
    {"task": {**TASK, "settings": {"unknown": 1}}},
    {"task": TASK, "small_direct": "yes"},
    {"task": TASK, "large_direct": {"text": "yes"}},
    {"task": TASK, "direct_verdict": "maybe"},
    {"task": TASK, "image_data": {"x": 5}},
    {"task": TASK, "disputed": {"direct": "count"}},
    {"task": {**TASK, "schema": {}}},
    {"task": {**TASK, "schema": {"properties": {"count": {"$ref": "#/none"}}}}},
    {"task": {**TASK, "schema": {"properties": {"count": b"?"}}}},
    *({"task": {**TASK, "schema": SCHEMA}, "small_direct": {**CALL, "value": value}} for value in [
        "3", {"count": 3}, {"count": {"value": 3}}, {"count": {"value": "x", "written": "x"}},
        {"other": {"value": 3, "written": "3"}}, {"rows": {"value": [3], "written": ""}},
        {"count": {"value": b"3", "written": "3"}},
    ]),
]  # fmt: skip
NODES = ["small_agent", "verification", "small_reasoning", "reasoning_transfer", "respond"]


@pytest.fixture
def mai(tmp_path):
    (tmp_path / "images").mkdir()
    script = dict.fromkeys(("direct", "reason", "transfer"), "yes")
    models = [ScriptedModel(script=script), ScriptedModel(script=script)]
    root = tmp_path / "images"
    return create_mai(*models, prompts=PROMPTS, checkpointer=InMemorySaver(), image_root=root)


def thread(name):
    return {"configurable": {"thread_id": str(name)}}


@pytest.mark.parametrize("state", STATES)
def test_a_node_checks_what_it_reads_like_input(mai, state):
    for node in NODES:  # the command starts `prepare` too, which finds no question
        with pytest.raises(MAIInputError, match=r"state holds no '[a-z._]+' as|nothing to ask"):
            mai.invoke(Command(goto=node, update=state), thread(node))
    mai.update_state(thread("prepared"), state, as_node="prepare")
    with pytest.raises(MAIInputError, match=r"state holds no '[a-z._]+' as this graph"):
        mai.invoke(None, thread("prepared"))


def test_a_file_named_by_state_is_neither_read_nor_quoted(mai, tmp_path):
    secret = tmp_path / "secret.yaml"
    secret.write_text(SECRET)
    reference = {"reference": str(secret), "digest": "0" * 64}
    tasks = [
        {**TASK, "settings": {"prompts": str(secret)}},
        {**TASK, "images": [reference]},
        {**TASK, "images": [{**reference, "reference": "message:x/-1"}]},
        {**TASK, "images": [{**reference, "reference": "input:x"}]},
    ]
    for number, task in enumerate(tasks):
        mai.update_state(thread(number), {"task": task}, as_node="prepare")
        with pytest.raises((MAIInputError, MAIError)) as error:
            mai.invoke(None, thread(number))
        assert SECRET not in str(error.value)
        assert "secret" not in str(error.value) or "may be read here" in str(error.value)


def test_state_written_between_two_steps_is_checked_too(mai):
    written = {"task": {"question": 5}, "small_reason": 7}
    for node in ("verification", "reasoning_verification"):
        with pytest.raises(MAIInputError):
            mai.update_state(thread(node), written, as_node=node)
    mai.update_state(thread("prepare"), written, as_node="prepare")
    with pytest.raises(MAIInputError):
        mai.invoke(None, thread("prepare"))
    mai.update_state(thread("respond"), {"task": TASK}, as_node="reasoning_transfer")
    with pytest.raises(MAIInputError, match="No model was called"):
        mai.invoke(None, thread("respond"))


def test_images_of_a_question_are_bounded_together(mai):
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    assert mai.invoke({"question": "?", "images": [dot] * 100}, thread("many"))["answer"] == "yes"
    with pytest.raises(MAIInputError, match="too many images: a question takes 100"):
        mai.invoke({"question": "?", "images": [dot] * 101}, thread("too many"))
    # A GIF of 7,000 x 7,000 pixels in some bytes; equal ones are decoded once.
    large = "data:image/gif;base64," + _gif(7000)
    with pytest.raises(MAIInputError, match="60 million pixels together"):
        mai.invoke({"question": "?", "images": [large] * 3}, thread("large"))


def _gif(side):
    import base64
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.new("P", (side, side)).save(stream, "GIF")
    return base64.b64encode(stream.getvalue()).decode()


def test_only_images_of_the_open_folder_are_asked_about(mai, tmp_path):
    for reference in ("/etc/hostname", str(tmp_path / "none.png"), "secret.png"):
        with pytest.raises(MAIInputError, match="may be read here") as error:
            mai.invoke({"question": "?", "images": [reference]}, thread(reference))
        assert str(tmp_path) in reference or str(tmp_path) not in str(error.value)
