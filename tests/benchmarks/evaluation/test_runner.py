import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from fakes import PROMPTS, AttentiveModel, models
from questions import question

from langgraph_mai import Pair, create_strategy
from langgraph_mai.benchmarks.evaluation.results import graph_input
from langgraph_mai.benchmarks.evaluation.runner import (
    Pace,
    StrategyGraphs,
    run_here,
    run_strategies,
)
from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
from langgraph_mai.graph import STRATEGIES


@pytest.fixture
def store(tmp_path):
    with EvaluationStore(tmp_path / "store") as opened:
        yield opened


def asked(*numbers: int):
    return [question(f"q{number}", f"Is number {number} red?") for number in numbers]


async def run(store, small, large, questions, strategies=STRATEGIES, concurrency=8, **options):
    graphs = StrategyGraphs(Pair("fake", small, large, PROMPTS), strategies, PROMPTS, store)
    engine = partial(run_here, graphs=graphs, concurrency=concurrency)
    return await run_strategies(questions, strategies, store, engine, **options)


def named(results) -> list[tuple[str, str]]:
    return [(one["id"], one["strategy"]) for one in results]


def errors(results) -> list[str]:
    return [one["error"] for one in results if one["error"]]


def timeless(calls: list[dict]) -> list[dict]:
    return [call | {"cached": None, "seconds": 0} for call in calls]


@pytest.mark.parametrize("route", ["direct", "reasoned", "transferred"])
async def test_strategies_over_stored_calls_are_the_graphs_themselves_at_a_call_each(store, route):
    small, large = models(route, delay=0.01)
    questions = asked(*range(3))
    results = await run(store, small, large, questions)
    assert named(results) == [(one.id, name) for one in questions for name in STRATEGIES]
    made = Counter((call["style"], call["prompt"]) for call in small.calls)
    styles = ("direct", "explain", "reason", "transfer")
    assert Counter(style for style, _ in made) == dict.fromkeys(styles, 3)
    # With a draft, the same prompt is another call.
    made += Counter((call["style"], call["prompt"], "draft" in call) for call in large.calls)
    assert set(made.values()) == {1}
    asks = {one.id: graph_input(one) for one in questions}
    for result in results:
        graph = create_strategy(result["strategy"], small, large, prompts=PROMPTS)
        output = await graph.ainvoke(asks[result["id"]])
        own = [result[key] for key in ("answer", "route", "fallback", "error")]
        assert own == [output[key] for key in ("answer", "route", "fallback")] + [None]
        assert timeless(result["calls"]) == timeless(output["calls"])
    assert {one["route"] for one in results if one["strategy"] == "mai"} == {route}


async def test_equal_questions_cost_one_call_and_a_second_run_only_what_is_new(store):
    small, large = models("direct")
    same = [question(f"q{number}") for number in range(6)]
    first = await run(store, small, large, [*same, *asked(7)], ["mai"])
    assert [result["id"] for result in first] == [*(f"q{n}" for n in range(6)), "q7"]
    assert (small.styles, large.styles) == (["direct"] * 2, ["direct"] * 2)
    paces, names = [], ["mai", "small_direct"]
    second = await run(
        store,
        small,
        large,
        asked(7, 8),
        names,
        on_result=lambda pace, _: paces.append(replace(pace)),
    )
    assert [one for one in second if one["strategy"] == "mai"][:1] == first[-1:]
    assert len(small.calls) == len(large.calls) == 3
    assert (paces[-1].done, paces[-1].total, paces[-1].fresh) == (4, 4, 3)
    assert paces[-1].seconds_left == 0
    # Strategies of former runs stay among the results.
    third = await run(store, small, large, asked(7, 9), ["large_direct"])
    assert named(third) == [("q7", one) for one in ("large_direct", *names)] + [
        ("q9", "large_direct")
    ]


async def test_failures_are_named_and_tried_again_by_the_next_evaluation(tmp_path):
    small, large = models("direct")
    broken = "Is number 2 red?"

    def answer(prompt: str) -> str | Exception:
        return RuntimeError("no memory left") if broken in prompt else "yes"

    large.script["direct"] = answer
    gone = question("gone", images=(str(tmp_path / "gone.png"),))
    questions, names = [*asked(*range(4)), gone], ["mai", "large_direct"]
    error = "The large model's direct call failed: no memory left."
    with EvaluationStore(tmp_path) as store:
        results = await run(store, small, large, questions, names)
        failed = {"role": "large", "style": "direct", "error": error.rstrip(".")}
        assert store.failed_calls() == [failed]
    assert [one["id"] for one in results if one["error"]] == ["q2", "q2", "gone", "gone"]
    assert errors(results)[:2] == [error] * 2
    assert all("There is no file" in one for one in errors(results)[2:])
    calls, broken = len(large.calls), "nothing"
    assert calls == 4  # the failed one was made once, for both strategies
    with EvaluationStore(tmp_path) as store:
        assert errors(await run(store, small, large, questions[:4], names)) == []
    assert len(large.calls) == calls + 1


async def test_a_cancelled_run_keeps_what_was_answered_at_its_concurrency(store):
    small, large = models("direct", delay=0.02)
    questions = asked(*range(30))
    task = asyncio.create_task(run(store, small, large, questions, ["mai"], concurrency=2))
    while len(small.calls) < 8:
        await asyncio.sleep(0.01)
        assert len(small.calls) <= store.count() / 2 + 3  # two questions at a time
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)
    kept = store.count()
    assert 0 < kept <= len(small.calls) + len(large.calls) < 60
    fresh = models("direct")
    assert errors(await run(store, *fresh, questions, ["mai"])) == []
    assert sum(len(model.calls) for model in fresh) == 60 - kept


async def test_one_attention_pass_serves_all_layers_of_a_sweep(store):
    small, large = models("transferred", kind=AttentiveModel)
    names = [f"full_transfer:sparse-L{layer}-{share}" for layer in (1, 2) for share in (0.5, 0.8)]
    for count in (1, 1):  # the second time, all of it is stored
        results = await run(store, small, large, asked(1), names)
        assert errors(results) == []
        assert len(large.passes) == count
    layers = {result["calls"][-1]["selection"]["layer"] for result in results}
    assert layers == {1, 2}


def test_pace_leaves_the_time_before_the_first_fresh_result_out(monkeypatch):
    now = iter([100.0, 104.0, 104.0, 104.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    pace = Pace(10)
    pace.advance(fresh=False)
    assert (pace.seconds_left, str(pace)) == (None, "1/10")
    for _ in range(5):
        pace.advance()
    assert (pace.done, pace.fresh, pace.rate, pace.seconds_left) == (6, 5, 1.0, 4.0)
