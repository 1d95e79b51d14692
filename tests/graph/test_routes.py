import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, models
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from PIL import Image

from langgraph_mai import create_mai, image_reference

ROUTES = {
    "direct": ["small direct", "large direct"],
    "reasoned": ["small direct", "large direct", "small reason"],
    "transferred": ["small direct", "large direct", "small reason", "large transfer"],
}


@pytest.mark.parametrize("route", ROUTES)
def test_each_route_makes_its_calls_and_no_more(route, run):
    small, large = models(route)
    result = run(create_mai(small, large, prompts=PROMPTS), QUESTION)
    assert result["answer"] == "yes"
    assert result["route"] == route
    assert result["fallback"] is None
    assert [f"{c['role']} {c['style']}" for c in result["calls"]] == ROUTES[route]
    assert {call["cut"] for call in result["calls"]} == {None}
    assert len(small.calls) + len(large.calls) == len(ROUTES[route])


def test_a_call_records_text_answer_tokens_and_time(run):
    small, large = models("reasoned", delay=0.02)
    result = run(create_mai(small, large, prompts=PROMPTS), QUESTION)
    reason = result["calls"][2]
    assert reason["text"] == "It looks red.\nAnswer: yes"
    assert reason["answer"] == "yes"
    assert reason["kind"] == "yes_no"
    assert (reason["input_tokens"], reason["output_tokens"], reason["cached_tokens"]) == (
        100,
        5,
        10,
    )
    assert 0.02 <= reason["seconds"] < 1
    assert reason["finish_reason"] == "stop"
    assert reason["error"] is None


def test_the_message_sums_the_usage_of_all_calls(run):
    small, large = models("transferred")
    result = run(create_mai(small, large, prompts=PROMPTS), QUESTION)
    question, message = result["messages"]
    assert (question.type, question.text) == ("human", "Is it red?")
    assert isinstance(message, AIMessage)
    assert message.text == "yes"
    assert message.name == "mai"
    assert message.usage_metadata["input_tokens"] == 400
    assert message.usage_metadata["output_tokens"] == 1 + 1 + 3 + 1
    assert message.usage_metadata["input_token_details"]["cache_read"] == 40
    assert message.response_metadata["route"] == "transferred"


@pytest.mark.parametrize(
    "given",
    [{"question": "Which?", "choices": ["cat", "dog"]}, {"question": "Which?\nA. cat\nB. dog"}],
)
def test_prompts_hold_question_choices_and_limits(given):
    small, large = models()
    small.script["direct"] = large.script["direct"] = "B"
    result = create_mai(small, large, prompts=PROMPTS).invoke(QUESTION | given)
    assert (result["answer"], result["calls"][0]["kind"]) == ("B", "choice")
    (call,) = small.calls
    assert call["prompt"] == "Which?\nA. cat\nB. dog\nDIRECT"
    assert call["max_tokens"] == 4


@pytest.mark.parametrize(
    ("transfer", "read"), [("full", "Hm.\nAnswer: no"), (lambda text: text.split()[0], "Hm.")]
)
def test_the_transfer_quotes_the_reasoning(transfer, read):
    small, large = models("transferred")
    create_mai(small, large, prompts=PROMPTS, transfer=transfer).invoke(QUESTION)
    assert large.calls[-1]["prompt"].endswith(f"TRANSFER [{read}]")


def test_every_call_sees_every_image(tmp_path, run):
    paths = [tmp_path / f"{color}.png" for color in ("red", "blue")]
    for path in paths:
        Image.new("RGB", (40, 40), path.stem).save(path)
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS)
    run(graph, {"question": "Is it red?", "images": [str(path) for path in paths]})
    assert [call["images"] for call in small.calls + large.calls] == [2, 2, 2, 2]


def test_images_as_bytes_pil_and_references(tmp_path):
    picture = Image.new("RGB", (40, 40), "red")
    picture.save(tmp_path / "red.png")
    small, large = models()
    graph = create_mai(small, large, prompts=PROMPTS)
    images = [picture, (tmp_path / "red.png").read_bytes(), image_reference(picture, tmp_path)]
    graph.invoke({"question": "Is it red?", "images": images})
    assert small.calls[0]["images"] == 3


@pytest.mark.parametrize(
    ("would_be", "verdict", "route"),
    [("transferred", "agree", "direct"), ("direct", "abstain", "transferred")],
)
def test_a_verifier_decides(would_be, verdict, route, run):
    graph = create_mai(*models(would_be), prompts=PROMPTS, verifier=lambda *_: verdict)
    result = run(graph, QUESTION)
    assert (result["answer"], result["route"]) == ("yes", route)


def test_models_by_name_need_langchain(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "langchain.chat_models", None)
    with pytest.raises(ValueError, match="pip install langchain"):
        create_mai("openai:gpt-4o-mini", ScriptedModel(script={}))


def test_a_model_without_a_token_limit_is_not_given_one():
    replies = FakeListChatModel(responses=["yes"])
    result = create_mai(replies, replies, prompts=PROMPTS).invoke(QUESTION)
    assert result["route"] == "direct"
    assert result["calls"][0]["output_tokens"] is None
    assert result["messages"][-1].usage_metadata is None
