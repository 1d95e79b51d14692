"""Models in LangChain's wrappers: bound settings, retries, fallbacks."""

from typing import Any

import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, models
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langgraph_mai import CallCache, Judge, create_mai

WRAPPERS = {
    "bind": lambda model: model.bind(seed=3),
    "config": lambda model: model.with_config(tags=["mine"]),
    "retry": lambda model: model.with_retry(stop_after_attempt=2),
    "fallbacks": lambda model: model.with_fallbacks([model]),
    "two": lambda model: model.bind(seed=3).with_retry(),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("cached", [False, True])
def test_a_wrapped_model_keeps_the_limits_of_the_prompts(wrap, cached):
    small, large = models("transferred")
    cache = CallCache() if cached else None
    graph = create_mai(wrap(small), wrap(large), prompts=PROMPTS, cache=cache, timeout=60)
    result = graph.invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("yes", "transferred")
    assert [call["max_tokens"] for call in small.calls] == [4, 64]
    graph.invoke(QUESTION)
    assert len(small.calls) == (2 if cached else 4)


def test_a_retry_retries():
    small, large = models("direct")
    replies = iter([RuntimeError("busy"), "yes"])
    small.script["direct"] = lambda _prompt: next(replies)
    graph = create_mai(small.with_retry(wait_exponential_jitter=False), large, prompts=PROMPTS)
    assert graph.invoke(QUESTION)["fallback"] is None


def test_a_fallback_without_a_limit_is_not_given_one():
    small, large = models("direct")
    small.script["direct"] = RuntimeError("busy")
    wrapped = small.with_fallbacks([FakeListChatModel(responses=["yes"])])
    result = create_mai(wrapped, large, prompts=PROMPTS).invoke(QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", None)
    assert "max_tokens" not in small.calls[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda model: model.bind(seed=1), lambda model: model.bind(seed=2)),
        (lambda model: model.bind(seed=1), lambda model: model),
        (lambda model: model.bind(tools=[object()]), lambda model: model.bind(tools=[object()])),
        (lambda model: model, lambda model: model.with_fallbacks([model.bind(seed=1)])),
    ],
)
def test_models_bound_differently_share_no_cached_answers(first, second):
    cache = CallCache()
    small, large = models("direct")
    for wrap in (first, second):
        create_mai(small, wrap(large), prompts=PROMPTS, cache=cache).invoke(QUESTION)
    assert (len(small.calls), len(large.calls)) == (1, 2)


def test_models_bound_alike_share_cached_answers():
    cache = CallCache()
    small, large = models("direct")
    for _ in range(2):
        create_mai(small, large.bind(seed=1), prompts=PROMPTS, cache=cache).invoke(QUESTION)
    assert len(large.calls) == 1


def test_a_judge_may_be_wrapped():
    small, large = models()
    small.script["direct"], large.script["direct"] = "a car", "an automobile"
    judge = Judge(ScriptedModel(script={"judge": "Yes."}).with_retry())
    graph = create_mai(small, large, prompts=PROMPTS, verifier=judge)
    given = QUESTION | {"question": "What is it?", "answer_type": "short_text"}
    assert graph.invoke(given)["route"] == "direct"


class Package(ScriptedModel):
    """Says in a way of its own why it stopped reasoning."""

    metadata: dict[str, Any]

    def _result(self, text, finish):
        metadata = self.metadata if "circle" in text else {}
        message = AIMessage(text, response_metadata=metadata)
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": ["length"]}, "length"),
        ({"finish_reason": {"type": "length"}}, "length"),
        ({"finish_reason": "model_length"}, "length"),
        ({"finishReason": "MAX_TOKENS"}, "length"),
        ({"stopReason": "max_tokens"}, "length"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stop_reason": "model_context_window_exceeded"}, "length"),
        ({"done_reason": "length"}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        # Any other reason costs nothing.
        ({"finish_reason": "STOP"}, "STOP"),
        ({"finish_reason": {}}, None),
        ({"finish_reason": []}, None),
        ({"finish_reason": {"code": 1}}, None),
        ({"finish_reason": None, "stop_reason": "end_turn"}, "end_turn"),
        ({"status": "completed", "incomplete_details": None}, None),
        ({"incomplete_details": "none"}, None),
    ],
)
def test_a_reasoning_at_its_limit_is_recognised_however_it_is_said(metadata, reason):
    _, large = models("transferred")
    script = {"direct": "no", "reason": "I see a circle. Is it red?\nAnswer: no"}
    if reason == "length":
        script["reason"] = "I see a circle. Is it red? yes, or"
    small = Package(script=script, metadata=metadata)
    result = create_mai(small, large, prompts=PROMPTS).invoke(QUESTION)
    reasoned = result["calls"][2]
    assert (reasoned["finish_reason"], result["fallback"]) == (reason, None)
    limited = reason == "length"
    assert (reasoned["cut"], reasoned["answer"]) == (("length", None) if limited else (None, "no"))
