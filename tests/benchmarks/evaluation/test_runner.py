import asyncio
from collections import Counter

import pytest
from fakes import PROMPTS, models

from langgraph_mai import create_strategy, load_pair
from langgraph_mai.benchmarks.evaluation.call_store import CallStore
from langgraph_mai.benchmarks.evaluation.results import failures, graph_input
from langgraph_mai.benchmarks.evaluation.runner import Runner
from langgraph_mai.benchmarks.evaluation.shared_calls import SharedCalls
from langgraph_mai.benchmarks.evaluation.stored_model import StoredModel
from langgraph_mai.benchmarks.question import BenchmarkQuestion
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.demo.questions import KINDS
from langgraph_mai.graph import STRATEGIES


@pytest.fixture
def store(tmp_path):
    with CallStore(tmp_path / "store") as opened:
        yield opened


def question(number: int, text: str = "") -> BenchmarkQuestion:
    return BenchmarkQuestion(
        id=f"q{number}",
        question=text or f"Is number {number} red?",
        images=(),
        answers=("yes",),
        answer_type="yes_no",
    )


def runner(store, small, large, strategies=STRATEGIES, prompts=PROMPTS, **options) -> Runner:
    calls = SharedCalls(store)
    stored = StoredModel(small, calls, "small"), StoredModel(large, calls, "large")
    graphs = {name: create_strategy(name, *stored, prompts=prompts) for name in strategies}
    return Runner(graphs, store, **options)


def timeless(calls: list[dict]) -> list[dict]:
    return [{**call, "seconds": 0, "cached_tokens": 0} for call in calls]


async def test_strategies_over_stored_calls_are_the_graphs_themselves(store, tmp_path):
    pair = load_pair()
    questions = [
        BenchmarkQuestion(
            id=str(item.number),
            question=item.question.text,
            images=(item.image,),
            answers=(item.answer,),
            choices=tuple(item.question.choices),
            answer_type=item.question.answer_type,
        )
        for item in held_out(tmp_path / "pictures", 2 * len(KINDS), seed=808)
    ]
    results = await runner(store, pair.small, pair.large, prompts=pair.prompts).run(questions)
    assert failures(results) == []
    assert [(r["id"], r["strategy"]) for r in results] == [
        (q.id, name) for q in questions for name in STRATEGIES
    ]
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
    questions = [question(number) for number in range(5)]
    results = await runner(store, small, large).run(questions)
    assert len(results) == 5 * len(STRATEGIES)
    asked = Counter((call["style"], call["prompt"]) for call in small.calls)
    assert set(asked.values()) == {1}
    assert Counter(style for style, _ in asked) == dict.fromkeys(
        ("direct", "explain", "reason", "transfer"), 5
    )
    # With a draft, the same prompt is another call.
    asked = Counter((call["style"], call["prompt"], "draft" in call) for call in large.calls)
    assert set(asked.values()) == {1}


async def test_identical_questions_cost_one_call_and_have_a_result_each(store):
    small, large = models("direct")
    same = [question(number, "Is it red?") for number in range(6)]
    results = await runner(store, small, large, ["mai"]).run([*same, question(7)])
    assert [result["id"] for result in results] == [*(f"q{n}" for n in range(6)), "q7"]
    assert (small.styles, large.styles) == (["direct"] * 2, ["direct"] * 2)


async def test_a_second_run_asks_only_what_is_new(store):
    small, large = models("direct")
    first = await runner(store, small, large, ["mai"]).run([question(1), question(2)])
    seen = []
    second = await runner(
        store, small, large, ["mai", "small_direct"], on_progress=seen.append
    ).run([question(1), question(2), question(3)])
    assert [r for r in second if r["strategy"] == "mai"][:2] == first
    assert len(small.calls) == len(large.calls) == 3
    assert (seen[-1].done, seen[-1].total, seen[-1].fresh) == (6, 6, 4)
    assert seen[-1].seconds_left == 0


async def test_strategies_of_former_runs_stay_among_the_results(store):
    small, large = models("direct")
    await runner(store, small, large, ["mai"]).run([question(1)])
    results = await runner(store, small, large, ["large_direct"]).run([question(1), question(2)])
    assert [(r["id"], r["strategy"]) for r in results] == [
        ("q1", "large_direct"),
        ("q1", "mai"),
        ("q2", "large_direct"),
    ]


async def test_failures_are_named_kept_apart_and_tried_again(store):
    small, large = models("direct")
    broken = "Is number 2 red?"

    def answer(prompt: str) -> str | Exception:
        return RuntimeError("no memory left") if broken in prompt else "yes"

    large.script["direct"] = answer
    questions = [question(number) for number in range(4)]
    seen = []
    results = await runner(
        store, small, large, ["mai", "large_direct"], on_progress=seen.append
    ).run(questions)
    assert [(r["id"], r["strategy"], r["error"]) for r in failures(results)] == [
        ("q2", name, "The large model's direct call failed: no memory left.")
        for name in ("mai", "large_direct")
    ]
    assert len(seen) == len(results) == 8
    assert len(store.failures()) == 1
    broken = "nothing"
    calls = len(large.calls)
    again = await runner(store, small, large, ["mai", "large_direct"]).run(questions)
    assert failures(again) == []
    assert len(large.calls) == calls + 1
    assert store.failures() == []


async def test_a_picture_that_is_gone_fails_its_question_alone(store, tmp_path):
    small, large = models("direct")
    gone = BenchmarkQuestion(
        id="gone",
        question="Is it red?",
        images=(str(tmp_path / "gone.png"),),
        answers=("yes",),
        answer_type="yes_no",
    )
    results = await runner(store, small, large, ["mai"]).run([gone, question(1)])
    assert "There is no file" in results[0]["error"]
    assert results[1]["error"] is None


async def test_a_run_that_is_cancelled_keeps_what_was_answered(store):
    small, large = models("direct", delay=0.02)
    questions = [question(number) for number in range(30)]
    task = asyncio.create_task(runner(store, small, large, ["mai"], concurrency=2).run(questions))
    while len(small.calls) < 8:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)  # calls that had begun end by themselves
    stored = sum(store.count_calls().values())
    asked = len(small.calls) + len(large.calls)
    assert 0 < stored <= asked < 60
    fresh_small, fresh_large = models("direct")
    results = await runner(store, fresh_small, fresh_large, ["mai"]).run(questions)
    assert failures(results) == []
    assert len(fresh_small.calls) + len(fresh_large.calls) == 60 - stored


async def test_no_more_runs_at_a_time_than_asked_for(store):
    running, most = 0, 0

    class Graph:
        async def ainvoke(self, given):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return {"answer": "yes", "route": "direct", "fallback": None, "calls": [call]}

    call = {"role": "large", "style": "direct", "text": "yes", "seconds": 0.0, "error": None}
    await Runner({"large_direct": Graph()}, store, concurrency=3).run(
        [question(number) for number in range(12)]
    )
    assert most == 3
