"""Calls that fail for a moment are made again; what another try cannot mend is not."""

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


def test_it_is_known_what_may_pass():
    assert [error for error in PASSING if not worth_retrying(error)] == []
    assert [error for error in LASTING if worth_retrying(error)] == []


@pytest.mark.parametrize(
    ("error", "fallback", "tries"),
    [
        (OutOfMemoryError("CUDA out of memory"), "large_direct", 3),
        *((error, "large_direct", 1) for error in LASTING[:4]),
    ],
)
def test_after_the_last_try_the_other_models_answer_stands(run, error, fallback, tries):
    small, large = models("direct")
    small.script["direct"] = error
    result = run(create_mai(small, large, prompts=PROMPTS), QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", fallback)
    assert result["calls"][0]["error"].endswith(": " + str(error))
    assert (small.styles, large.styles) == (["direct"] * tries, ["direct"])


@pytest.mark.parametrize("style", ["direct", "reason", "transfer"])
def test_a_call_that_fails_for_a_moment_is_made_again(run, style):
    small, large = models("transferred")
    model = large if style == "transfer" else small
    told, left = model.script[style], [ConnectionError("reset")]
    model.script[style] = lambda _prompt: left.pop() if left else told
    result = run(create_mai(small, large, prompts=PROMPTS), QUESTION)
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "transferred", None)
    assert [call["error"] for call in result["calls"]] == [None] * 4
    assert len(small.calls) + len(large.calls) == 5


def test_bad_input_is_refused_once(run):
    small, large = models("direct")
    with pytest.raises(MAIInputError):
        run(create_mai(small, large, prompts=PROMPTS), QUESTION | {"question": " "})
    assert small.calls == large.calls == []


def test_a_judge_is_called_again_and_then_counts_as_abstaining(run):
    small, large = models("direct")
    small.script["direct"], large.script["direct"] = "a dog", "a hound"
    small.script["reason"] = "Answer: a hound"
    judge, _ = models()
    judge.script["judge"] = ConnectionError("refused")
    graph = create_mai(small, large, prompts=PROMPTS, verifier=Judge(judge))
    result = run(graph, QUESTION | {"question": "What is it?", "answer_type": "short_text"})
    assert judge.styles == ["judge"] * 3
    assert (result["answer"], result["route"]) == ("a hound", "reasoned")


def test_strategies_and_cached_graphs_try_again_too(run):
    small, large = models("direct")
    left = [ConnectionError("refused")]
    small.script["direct"] = lambda _prompt: left.pop() if left else "yes"
    graph = create_strategy("small_direct", small, large, prompts=PROMPTS, cache=CallCache())
    assert [run(graph, QUESTION)["answer"] for _ in range(2)] == ["yes", "yes"]
    assert small.styles == ["direct"] * 2
