import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from fakes import PROMPTS, AttentiveModel, models
from questions import question

from langgraph_mai import Pair, create_strategy, load_pair
from langgraph_mai.benchmarks.datasets import load_shapes
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


async def run(store, small, large, questions, strategies=STRATEGIES, **options):
    pair = Pair("fake", small, large, options.pop("prompts", PROMPTS))
    graphs = StrategyGraphs(pair, strategies, pair.prompts, store)
    engine = partial(run_here, graphs=graphs, concurrency=options.pop("concurrency", 8))
    return await run_strategies(questions, strategies, store, engine, **options)


def named(results) -> list[tuple[str, str]]:
    return [(one["id"], one["strategy"]) for one in results]


def errors(results) -> list[str]:
    return [one["error"] for one in results if one["error"]]


def timeless(calls: list[dict]) -> list[dict]:
    same = {"cached": None, "seconds": 0, "cached_tokens": 0}
    # Beside others, a probability differs in its last digits.
    same["probability"] = None
    return [call | same for call in calls]


async def test_strategies_over_stored_calls_are_the_graphs_themselves(store, tmp_path):
    pair = load_pair()
    questions = load_shapes(5, tmp_path, seed=808).questions
    results = await run(store, pair.small, pair.large, questions, prompts=pair.prompts)
    assert errors(results) == []
    assert named(results) == [(q.id, name) for q in questions for name in STRATEGIES]
    by_id = {q.id: q for q in questions}
    routes = Counter()
    for name in STRATEGIES:
        graph = create_strategy(name, pair.small, pair.large, prompts=pair.prompts)
        for result in (r for r in results if r["strategy"] == name):
            output = await graph.ainvoke(graph_input(by_id[result["id"]]))
            for key in ("answer", "route", "fallback"):
                assert result[key] == output[key]
            assert timeless(result["calls"]) == timeless(output["calls"])
            routes[name, result["route"]] += 1
    assert len({route for name, route in routes if name == "mai"}) > 1


@pytest.mark.parametrize("route", ["direct", "reasoned", "transferred"])
async def test_all_strategies_cost_each_distinct_call_once(store, route):
    small, large = models(route, delay=0.01)
    results = await run(store, small, large, asked(*range(5)))
    assert len(results) == 5 * len(STRATEGIES)
    made = Counter((call["style"], call["prompt"]) for call in small.calls)
    assert set(made.values()) == {1}
    styles = ("direct", "explain", "reason", "transfer")
    assert Counter(style for style, _ in made) == dict.fromkeys(styles, 5)
    # With a draft, the same prompt is another call.
    made = Counter((call["style"], call["prompt"], "draft" in call) for call in large.calls)
    assert set(made.values()) == {1}


async def test_identical_questions_cost_one_call_and_have_a_result_each(store):
    small, large = models("direct")
    same = [question(f"q{number}") for number in range(6)]
    results = await run(store, small, large, [*same, *asked(7)], ["mai"])
    assert [result["id"] for result in results] == [*(f"q{n}" for n in range(6)), "q7"]
    assert (small.styles, large.styles) == (["direct"] * 2, ["direct"] * 2)


async def test_a_second_run_asks_only_what_is_new(store):
    small, large = models("direct")
    first = await run(store, small, large, asked(1, 2), ["mai"])
    paces = []
    second = await run(
        store,
        small,
        large,
        asked(1, 2, 3),
        ["mai", "small_direct"],
        on_result=lambda pace, _: paces.append(replace(pace)),
    )
    assert [r for r in second if r["strategy"] == "mai"][:2] == first
    assert len(small.calls) == len(large.calls) == 3
    assert (paces[-1].done, paces[-1].total, paces[-1].fresh) == (6, 6, 4)
    assert paces[-1].seconds_left == 0
    # Strategies of former runs stay among the results.
    third = await run(store, small, large, asked(1, 4), ["large_direct"])
    first_names = [("q1", name) for name in ("large_direct", "mai", "small_direct")]
    assert named(third) == [*first_names, ("q4", "large_direct")]


async def test_failures_are_named_and_tried_again_by_the_next_evaluation(tmp_path):
    small, large = models("direct")
    broken = "Is number 2 red?"

    def answer(prompt: str) -> str | Exception:
        return RuntimeError("no memory left") if broken in prompt else "yes"

    large.script["direct"] = answer
    questions, names, seen = asked(*range(4)), ["mai", "large_direct"], []
    error = "The large model's direct call failed: no memory left."
    with EvaluationStore(tmp_path) as store:
        results = await run(
            store, small, large, questions, names, on_result=lambda *one: seen.append(one)
        )
        failed = {"role": "large", "style": "direct", "error": error.rstrip(".")}
        assert store.failed_calls() == [failed]
    assert [one["id"] for one in results if one["error"]] == ["q2", "q2"]
    assert errors(results) == [error] * 2
    assert len(seen) == len(results) == 8
    calls, broken = len(large.calls), "nothing"
    assert calls == 4  # the failed one was made once, for both strategies
    with EvaluationStore(tmp_path) as store:
        assert errors(await run(store, small, large, questions, names)) == []
    assert len(large.calls) == calls + 1


async def test_a_missing_image_fails_its_question_alone(store, tmp_path):
    small, large = models("direct")
    gone = question("gone", images=(str(tmp_path / "gone.png"),))
    results = await run(store, small, large, [gone, *asked(1)], ["mai"])
    assert "There is no file" in results[0]["error"]
    assert results[1]["error"] is None


async def test_a_cancelled_run_keeps_what_was_answered(store):
    small, large = models("direct", delay=0.02)
    questions = asked(*range(30))
    task = asyncio.create_task(run(store, small, large, questions, ["mai"], concurrency=2))
    while len(small.calls) < 8:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)
    kept = store.count()
    assert 0 < kept <= len(small.calls) + len(large.calls) < 60
    fresh = models("direct")
    assert errors(await run(store, *fresh, questions, ["mai"])) == []
    assert sum(len(model.calls) for model in fresh) == 60 - kept


async def test_concurrency_limits_the_runs_at_a_time(store):
    running, most = 0, 0

    class Graphs:
        async def run(self, work, strategy):
            nonlocal running, most
            running, most = running + 1, max(most, running + 1)
            await asyncio.sleep(0.01)
            running -= 1
            return {"strategy": strategy, "error": None}

    engine = partial(run_here, graphs=Graphs(), concurrency=3)
    await run_strategies(asked(*range(12)), ["mai"], store, engine)
    assert most == 3


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
