"""The small agent begins to reason before the large one has answered, and stops where it agrees."""

import asyncio
import threading
import time

import pytest
from fakes import PROMPTS, ScriptedModel, models
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import ConfigError, create_mai, load_pair
from langgraph_mai.models.stop_signal import StopSignal, current_stop_signal

QUESTION = {"question": "Is it red?"}


def run(graph, way, *arguments):
    if way == "invoke":
        return graph.invoke(QUESTION, *arguments)
    return asyncio.run(graph.ainvoke(QUESTION, *arguments))


def overlapping(route, large_seconds=0.0, **options):
    """A graph whose large model answers last, and both models."""
    small, large = models(route)
    large.delay = large_seconds
    return create_mai(small, large, prompts=PROMPTS, overlap="reasoning", **options), small, large


def styles(model):
    return [call["style"] for call in model.calls]


both_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke"])


@both_ways
@pytest.mark.parametrize("route", ["direct", "reasoned", "transferred"])
def test_answers_and_routes_are_those_without_it(way, route):
    graph, small, large = overlapping(route, 0.3)
    result = run(graph, way)
    plain = create_mai(*models(route), prompts=PROMPTS)
    expected = run(plain, way)
    assert (result["answer"], result["route"]) == (expected["answer"], expected["route"])
    assert result["fallback"] == expected["fallback"]
    assert styles(small) == ["direct", "reason"]
    assert styles(large) == [call["style"] for call in expected["calls"] if call["role"] == "large"]


@both_ways
def test_the_reasoning_begins_before_the_large_answer(way):
    reasoning = threading.Event()
    small, large = models("reasoned")
    answer = small.script["reason"]
    small.script["reason"] = lambda _prompt: reasoning.set() or answer
    # The large model answers only once the small one reasons.
    large.before = lambda: reasoning.wait(timeout=10)
    graph = create_mai(small, large, prompts=PROMPTS, overlap="reasoning")
    result = run(graph, way)
    assert reasoning.is_set()
    assert result["route"] == "reasoned"
    assert [(call["role"], call["style"]) for call in result["calls"]] == [
        ("small", "direct"),
        ("large", "direct"),
        ("small", "reason"),
    ]


@both_ways
def test_a_large_model_that_is_first_leaves_nothing_to_begin(way):
    small, large = models("direct")
    small.delay = 0.3
    graph = create_mai(small, large, prompts=PROMPTS, overlap="reasoning")
    result = run(graph, way)
    assert styles(small) == ["direct"]
    assert len(result["calls"]) == 2


@both_ways
def test_a_failed_direct_answer_begins_nothing(way):
    graph, small, _ = overlapping("direct", 0.1)
    small.script["direct"] = RuntimeError("broken")
    result = run(graph, way)
    assert styles(small) == ["direct"]
    assert result["fallback"] == "large_direct"


@both_ways
def test_a_model_that_does_not_listen_is_not_waited_for(way):
    graph, small, _ = overlapping("direct", 0.2)
    done = threading.Event()
    small.script["reason"] = lambda _prompt: time.sleep(1) or done.set() or "Answer: no"
    result = run(graph, way)
    assert result["route"] == "direct"
    (stopped,) = [call for call in result["calls"] if call["style"] == "reason"]
    assert stopped["finish_reason"] == "cancelled"
    assert stopped["output_tokens"] is None  # it did not say
    assert stopped["error"] is None
    assert done.wait(timeout=10)


@both_ways
def test_a_reasoning_that_fails_is_a_failed_call(way):
    graph, small, _ = overlapping("reasoned", 0.2)
    small.script["reason"] = RuntimeError("out of ideas")
    result = run(graph, way)
    assert "out of ideas" in result["calls"][-1]["error"]
    assert result["answer"] == "yes"


@both_ways
def test_the_state_stays_plain(way):
    graph, _, _ = overlapping("direct", 0.2, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    first = run(graph, way, config)
    second = run(graph, way, config)
    assert first["answer"] == second["answer"] == "yes"
    assert isinstance(graph.get_state(config).values["overlap"], str)


async def test_a_cancelled_run_ends_its_reasoning():
    small, large = models("direct")
    large.delay = 30
    reasoning, ended = threading.Event(), []

    class Slow(ScriptedModel):
        async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
            if "REASON" in str(messages[-1].content):
                reasoning.set()
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    ended.append("cancelled")
                    raise
            return await super()._agenerate(messages, stop, run_manager, **kwargs)

    graph = create_mai(Slow(script=small.script), large, prompts=PROMPTS, overlap="reasoning")
    task = asyncio.create_task(graph.ainvoke(QUESTION))
    while not reasoning.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if ended:
            break
        await asyncio.sleep(0.01)
    assert ended == ["cancelled"]


async def test_runs_side_by_side_do_not_mix():
    graph, small, large = overlapping("reasoned", 0.1)
    small.script["direct"] = "0"
    asked = [{"question": f"{n} dots?", "answer_type": "number"} for n in range(1, 12)]
    small.script["reason"] = lambda prompt: f"Answer: {_number(prompt)}"
    large.script["direct"] = _number
    results = await asyncio.gather(*(graph.ainvoke(one) for one in asked))
    assert [result["answer"] for result in results] == [str(n) for n in range(1, 12)]
    assert {result["route"] for result in results} == {"reasoned"}


def _number(prompt):
    return next(word for word in prompt.split() if word.isdigit())


def test_other_values_are_refused():
    with pytest.raises(ConfigError, match='`overlap` must be "reasoning" or None'):
        create_mai(*models(), prompts=PROMPTS, overlap="everything")


@pytest.fixture
def demo_run(tmp_path):
    from langgraph_mai.demo.held_out import held_out

    pair = load_pair("demo")
    graph = create_mai(pair.small, pair.large, prompts=pair.prompts, overlap="reasoning")
    plain = create_mai(pair.small, pair.large, prompts=pair.prompts)
    items = held_out(tmp_path, 12)
    given = [
        {
            "question": item.question.text,
            "images": [item.image],
            "choices": list(item.question.choices),
            "answer_type": item.question.answer_type,
        }
        for item in items
    ]
    return graph, plain, given


@both_ways
def test_with_real_models(demo_run, way, monkeypatch):
    graph, plain, given = demo_run
    expected = [plain.invoke(one) for one in given]
    slow_large(monkeypatch)
    results = [
        graph.invoke(one) if way == "invoke" else asyncio.run(graph.ainvoke(one)) for one in given
    ]
    stopped = []
    for got, wanted in zip(results, expected, strict=True):
        assert (got["answer"], got["route"]) == (wanted["answer"], wanted["route"])
        stopped += [call for call in got["calls"] if call["finish_reason"] == "cancelled"]
        total = sum(call["output_tokens"] for call in got["calls"])
        assert got["messages"][-1].usage_metadata["output_tokens"] == total
    assert stopped
    for call in stopped:
        assert (call["role"], call["style"], call["error"]) == ("small", "reason", None)
        assert 1 <= call["output_tokens"] < 30
        assert call["text"]


def slow_large(monkeypatch):
    """Every token of the large demo model takes 60 ms, those of the small one 10."""
    from transformers import GenerationMixin

    from langgraph_mai.models.transformers.sampling import Watch

    step, generate = Watch.__call__, GenerationMixin.generate
    large = threading.local()

    def slowed(self, *args, **kwargs):
        time.sleep(0.06 if large.yes else 0.01)
        return step(self, *args, **kwargs)

    def noted(self, *args, **kwargs):
        large.yes = self.config.get_text_config().hidden_size == 160
        return generate(self, *args, **kwargs)

    monkeypatch.setattr(Watch, "__call__", slowed)
    monkeypatch.setattr(GenerationMixin, "generate", noted)


def test_a_signal_reaches_calls_of_its_context_alone():
    signal, heard = StopSignal(), []
    assert current_stop_signal() is None
    with signal.covering():
        current_stop_signal().listen(lambda: heard.append("early"))
    assert current_stop_signal() is None
    signal.stop()
    signal.listen(lambda: heard.append("late"))
    signal.stop()
    assert heard == ["early", "late"]
