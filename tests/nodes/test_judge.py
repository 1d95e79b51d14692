import asyncio

import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, models

from langgraph_mai import Judge, create_mai


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    def go(small_says, large_says, judge, **given):
        small, large = models("transferred")
        small.script["direct"], large.script["direct"] = small_says, large_says
        graph = create_mai(small, large, prompts=PROMPTS, verifier=judge)
        given = QUESTION | given
        if request.param == "invoke":
            return graph.invoke(given)
        return asyncio.run(graph.ainvoke(given))

    return go


def judge_that_says(reply) -> tuple[Judge, ScriptedModel]:
    model = ScriptedModel(script={"judge": reply}, label="judge")
    return Judge(model), model


def test_a_judge_finds_that_two_words_mean_the_same(run):
    judge, model = judge_that_says("Yes.")
    given = {"question": "What is it?", "answer_type": "short_text"}
    result = run("a car", "an automobile", judge, **given)
    assert (result["answer"], result["route"]) == ("an automobile", "direct")
    assert [call["role"] for call in result["calls"]] == ["small", "large", "judge"]
    (asked,) = model.calls
    assert "What is it?" in asked["prompt"]
    assert "automobile" in asked["prompt"]
    assert "car" in asked["prompt"]


def test_a_judge_that_says_no_lets_the_run_go_on(run):
    judge, model = judge_that_says("No, they differ.")
    given = {"question": "What is it?", "answer_type": "short_text"}
    assert run("a car", "a boat", judge, **given)["route"] == "transferred"
    assert len(model.calls) == 2


def test_exact_values_need_no_judge(run):
    judge, model = judge_that_says("Yes.")
    assert run("no", "yes", judge, question="Is it red?")["route"] == "transferred"
    assert model.calls == []


def test_equal_answers_need_no_judge(run):
    judge, model = judge_that_says("No.")
    given = {"question": "What is it?", "answer_type": "short_text"}
    assert run("a car", "A car.", judge, **given)["route"] == "direct"
    assert model.calls == []


@pytest.mark.parametrize("reply", ["Perhaps.", RuntimeError("busy")])
def test_without_a_verdict_the_answers_do_not_agree(run, reply):
    judge, _ = judge_that_says(reply)
    result = run("a car", "a boat", judge, question="What is it?", answer_type="short_text")
    assert result["route"] == "transferred"
    errors = [call["error"] for call in result["calls"] if call["role"] == "judge"]
    assert len(errors) == 2
    assert all((error is None) == isinstance(reply, str) for error in errors)
