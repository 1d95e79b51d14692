"""A reasoning that has begun early and is of no use ends, and disturbs nothing."""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from fakes import PROMPTS, ScriptedModel, models
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langgraph_mai import create_mai
from langgraph_mai.models.stop_signal import CallStoppedError, current_stop_signal

QUESTION = {"question": "Is it red?"}


def run(graph, way):
    if way == "invoke":
        return graph.invoke(QUESTION)
    return asyncio.run(graph.ainvoke(QUESTION))


both_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke"])


@both_ways
@pytest.mark.parametrize("error", [MemoryError("no memory"), RuntimeError("broken")])
@pytest.mark.parametrize("listens", [True, False])
def test_the_failure_of_an_unwanted_reasoning_is_its_own(way, error, listens):
    verified = []

    class Model(ScriptedModel):
        listens_to_stop_signal: ClassVar[bool] = listens

    small, large = models("direct")
    failed = threading.Event()
    script = small.script | {"reason": lambda _prompt: failed.set() or error}
    large.before = lambda: failed.wait(timeout=10) and time.sleep(0.1)
    graph = create_mai(
        Model(script=script),
        large,
        prompts=PROMPTS,
        overlap="reasoning",
        verifier=lambda *pair: verified.append(pair) or "agree",
    )
    result = run(graph, way)
    assert len(verified) == 1
    assert result["route"] == "direct"
    (reason,) = [call for call in result["calls"] if call["style"] == "reason"]
    assert str(error) in reason["error"]


class Endless(ScriptedModel):
    """Reasons until it is stopped; hears a `StopSignal` under `invoke`, cancellation otherwise."""

    listens_to_stop_signal: ClassVar[bool] = True
    reasoning: Any = Field(default_factory=threading.Event)
    ended: Any = Field(default_factory=threading.Event)
    reasoned: list[str] = Field(default_factory=list)

    def _endless(self, messages):
        if "REASON" not in str(messages[-1].text) or self.reasoned:
            return False  # only the first reasoning is endless
        self.reasoned.append("early")
        self.reasoning.set()
        return True

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if self._endless(messages):
            stopped = threading.Event()
            current_stop_signal().listen(stopped.set)
            if stopped.wait(timeout=20):
                self.ended.set()
            raise CallStoppedError(self._result("Let us see", "cancelled").generations[0].message)
        return super()._generate(messages, stop, run_manager, **kwargs)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        if self._endless(messages):
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()

            def stop():
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(stopped.set)

            current_stop_signal().listen(stop)
            try:
                await asyncio.wait_for(stopped.wait(), 20)
            finally:
                self.ended.set()
            raise CallStoppedError(self._result("Let us see", "cancelled").generations[0].message)
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


def endless(route, **options):
    """A graph whose early reasoning ends only if it is stopped, and its small model."""
    small, large = models(route)
    small = Endless(script=small.script)
    large.before = lambda: "direct" in large.styles and small.reasoning.wait(timeout=10)
    graph = create_mai(small, large, prompts=PROMPTS, overlap="reasoning", **options)
    return graph, small, large


@both_ways
def test_a_stopped_reasoning_is_recorded_with_what_it_wrote(way):
    graph, small, _ = endless("direct")
    result = run(graph, way)
    assert small.ended.is_set()
    (stopped,) = [call for call in result["calls"] if call["style"] == "reason"]
    assert (stopped["text"], stopped["finish_reason"]) == ("Let us see", "cancelled")
    assert (stopped["output_tokens"], stopped["error"]) == (3, None)


@both_ways
@pytest.mark.parametrize("wrap", ["with_retry", "with_fallbacks"])
def test_wrapped_models_are_not_waited_for(way, wrap):
    small, large = models("direct")
    small = Endless(script=small.script)
    large.before = lambda: small.reasoning.wait(timeout=10)
    wrapped = small.with_retry() if wrap == "with_retry" else small.with_fallbacks([small])
    graph = create_mai(wrapped, large, prompts=PROMPTS, overlap="reasoning")
    result = run(graph, way)
    assert result["route"] == "direct"
    assert result["calls"][-1]["finish_reason"] == "cancelled"
    assert small.ended.wait(timeout=10)


@pytest.mark.parametrize("route", ["direct", "reasoned"])
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("invoke", "ainvoke"),
        ("other loop", "ainvoke"),
        ("other loop", "invoke"),
        ("closed loop", "ainvoke"),
        ("closed loop", "invoke"),
    ],
)
def test_a_run_may_be_resumed_elsewhere(route, first, then):
    graph, small, _ = endless(route, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    before = {"interrupt_before": ["verification"]}
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever)
    if first == "invoke":
        graph.invoke(QUESTION, config, **before)
    elif first == "closed loop":
        asyncio.run(graph.ainvoke(QUESTION, config, **before))
    else:
        running.start()
        begun = graph.ainvoke(QUESTION, config, **before)
        asyncio.run_coroutine_threadsafe(begun, loop).result(timeout=20)
    assert small.reasoning.is_set()
    try:
        if then == "invoke":
            result = graph.invoke(None, config)
        else:
            result = asyncio.run(graph.ainvoke(None, config))
        assert small.ended.wait(timeout=10)
    finally:
        if running.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            running.join()
        loop.close()
    assert result["route"] == route
    assert result["answer"] == "yes"


@both_ways
def test_a_run_that_has_failed_begins_nothing(way):
    small, large = models("direct")
    failed = threading.Event()

    class Broken(BaseException):
        pass

    class Breaking(ScriptedModel):
        def invoke(self, *_args, **_kwargs):
            failed.set()
            raise Broken

        async def ainvoke(self, *_args, **_kwargs):
            self.invoke()

    def answers(_prompt):
        failed.wait(timeout=10)
        time.sleep(0.1)
        return "yes"

    small.script["direct"] = answers
    graph = create_mai(small, Breaking(script=large.script), prompts=PROMPTS, overlap="reasoning")
    with pytest.raises(Broken):
        run(graph, way)
    time.sleep(0.3)
    assert "reason" not in small.styles


@both_ways
def test_nothing_begins_beside_a_cached_answer_of_the_large_agent(way):
    cache = InMemoryCache()
    _, large = models("direct")
    first, _ = models("direct")
    run(create_mai(first, large, prompts=PROMPTS, cache=cache), way)
    small = ScriptedModel(script=first.script, label="another")
    result = run(create_mai(small, large, prompts=PROMPTS, cache=cache, overlap="reasoning"), way)
    assert large.styles == ["direct"]
    assert small.styles == ["direct"]
    assert result["route"] == "direct"


class WithoutDirect(InMemoryCache):
    """A cache that never has the small model's direct answer."""

    def get(self, keys):
        return super().get([key for key in keys if "small_agent" not in key[0]])

    async def aget(self, keys):
        return self.get(keys)


@both_ways
def test_a_cached_reasoning_ends_the_one_that_has_begun(way):
    cache = WithoutDirect()
    small, large = models("reasoned")
    small = Endless(script=small.script, reasoned=["before"], label="small")
    run(create_mai(small, large, prompts=PROMPTS, cache=cache), way)
    small.reasoned.clear()
    other = ScriptedModel(script=large.script, label="other")
    other.before = lambda: small.reasoning.wait(timeout=10)
    result = run(create_mai(small, other, prompts=PROMPTS, cache=cache, overlap="reasoning"), way)
    assert small.ended.is_set()
    assert result["route"] == "reasoned"
    finishes = [call["finish_reason"] for call in result["calls"] if call["style"] == "reason"]
    assert sorted(finishes) == ["cancelled", "stop"]
