import pytest
from fakes import PROMPTS, QUESTION, models

from langgraph_mai import CallCache, Judge, MAIInputError, ModelError, create_mai, create_strategy
from langgraph_mai.models.errors import EngineEndedError, UnreachableError
from langgraph_mai.nodes.caller import worth_retrying


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


class APIConnectionError(Exception):
    """As openai and anthropic name it."""


class APITimeoutError(APIConnectionError):
    """As openai names it."""


class StatusError(Exception):
    def __init__(self, status_code):
        super().__init__(f"status {status_code}")
        self.status_code = status_code


def caused(error):
    outer = ModelError("The model ran out of memory; lower max_pixels.")
    outer.__cause__ = error
    return outer


PASSING = [
    ConnectionError("refused"),
    EngineEndedError("The engine has ended."),
    MemoryError(),
    OutOfMemoryError("CUDA out of memory"),
    APIConnectionError("connection error"),
    StatusError(429),
    StatusError(503),
    caused(OutOfMemoryError("CUDA out of memory")),
]
LASTING = [
    ValueError("bad image"),
    RuntimeError("busy"),
    TimeoutError("too slow"),
    APITimeoutError("too slow"),
    StatusError(400),
    StatusError(404),
    ModelError("There is no model."),
    MAIInputError("The question is empty."),
    UnreachableError("The server cannot be reached."),  # after its own tries
]


@pytest.fixture
def run(run):
    return lambda graph, **given: run(graph, QUESTION | given)


def failing(times, error):
    """A script that fails so often, then answers yes."""
    left = [error] * times
    return lambda _prompt: left.pop() if left else "yes"


@pytest.mark.parametrize("error", PASSING, ids=lambda error: f"{type(error).__name__}-{error}")
def test_these_pass(error):
    assert worth_retrying(error)


@pytest.mark.parametrize("error", LASTING, ids=lambda error: f"{type(error).__name__}-{error}")
def test_these_stay(error):
    assert not worth_retrying(error)


def test_a_call_that_fails_for_a_moment_is_made_again(run):
    small, large = models("direct")
    small.script["direct"] = failing(1, ConnectionError("refused"))
    result = run(create_mai(small, large, prompts=PROMPTS), **QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", None)
    assert [call["error"] for call in result["calls"]] == [None, None]
    assert (small.styles, large.styles) == (["direct"] * 2, ["direct"])


def test_after_the_last_try_the_other_models_answer_stands(run):
    small, large = models("direct")
    small.script["direct"] = OutOfMemoryError("CUDA out of memory")
    result = run(create_mai(small, large, prompts=PROMPTS), **QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert "CUDA out of memory" in result["calls"][0]["error"]
    assert small.styles == ["direct"] * 3


@pytest.mark.parametrize("error", LASTING[:4], ids=lambda error: type(error).__name__)
def test_what_another_try_cannot_mend_is_not_tried_again(run, error):
    small, large = models("direct")
    small.script["direct"] = error
    run(create_mai(small, large, prompts=PROMPTS), **QUESTION)
    assert small.styles == ["direct"]


def test_bad_input_is_refused_once(run):
    small, large = models("direct")
    with pytest.raises(MAIInputError):
        run(create_mai(small, large, prompts=PROMPTS), question=" ")
    assert small.calls == large.calls == []


@pytest.mark.parametrize("style", ["reason", "transfer"])
def test_later_calls_are_tried_again_too(run, style):
    small, large = models("transferred")
    model = small if style == "reason" else large
    told = model.script[style]
    left = [ConnectionError("reset")]
    model.script[style] = lambda _prompt: left.pop() if left else told
    result = run(create_mai(small, large, prompts=PROMPTS), **QUESTION)
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "transferred", None)


def test_a_judge_is_asked_again_and_then_counts_as_abstaining(run):
    small, large = models("direct")
    small.script["direct"], large.script["direct"] = "a dog", "a hound"
    small.script["reason"] = "Answer: a hound"
    judge, _ = models()
    judge.script["judge"] = ConnectionError("refused")
    graph = create_mai(small, large, prompts=PROMPTS, verifier=Judge(judge))
    result = run(graph, question="What is it?", answer_type="short_text")
    assert judge.styles == ["judge"] * 3
    assert (result["answer"], result["route"]) == ("a hound", "reasoned")


def test_strategies_and_cached_graphs_try_again_too(run):
    small, large = models("direct")
    small.script["direct"] = failing(1, ConnectionError("refused"))
    graph = create_strategy("small_direct", small, large, prompts=PROMPTS, cache=CallCache())
    assert [run(graph, **QUESTION)["answer"] for _ in range(2)] == ["yes", "yes"]
    assert small.styles == ["direct"] * 2
