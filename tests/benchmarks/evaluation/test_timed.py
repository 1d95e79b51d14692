import asyncio

from fakes import PROMPTS, ScriptedModel, models
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import question

from langgraph_mai import create_strategy
from langgraph_mai.benchmarks.evaluation.timed import (
    WARM_UP,
    time_strategies,
    timed_lines,
    timing_records,
)

STRATEGIES = ("mai", "large_direct")
CALL = {"role": "large", "style": "direct", "text": "yes", "seconds": 0.0, "error": None}


class CachingModel(ScriptedModel):
    """Notes in its calls when its prefix cache is cleared."""

    def clear_prefix_cache(self) -> None:
        self.calls.append({"style": "clear"})


def questions(count: int):
    return [question(f"q{number}", f"Is number {number} red?") for number in range(count)]


def graphs(small, large, names=STRATEGIES):
    return {name: create_strategy(name, small, large, prompts=PROMPTS) for name in names}


def figures(runs) -> dict[tuple[str, str], float | None]:
    return {(one["strategy"], one["name"]): one["value"] for one in timing_records(runs)}


def test_every_question_is_asked_for_real_after_a_warm_up_and_its_calls_add_up():
    small, large = models("transferred")
    runs = time_strategies(graphs(small, large), questions(4))
    assert [run.strategy for run in runs] == list(STRATEGIES)
    assert small.styles.count("direct") == 4 + WARM_UP
    assert large.styles.count("direct") == 2 * (4 + WARM_UP)
    assert len(list(timed_lines(runs))) == 8
    seen = figures(runs)
    assert (seen["mai", "calls"], seen["large_direct", "calls"]) == (16, 4)
    for kind, each in (("calls", 1), ("input_tokens", 100), ("cached_tokens", 10)):
        parts = ("small.direct", "large.direct", "small.reason", "large.transfer")
        assert [seen["mai", f"{kind}.{part}"] for part in parts] == [4 * each] * 4
    assert seen["mai", "output_tokens.small.reason"] == 4 * 3  # Hm. Answer: no


def test_prefix_caches_are_cleared_before_every_turn():
    small, large = models("direct", kind=CachingModel)
    time_strategies(graphs(small, large), questions(2), models=(small, large))
    warm_up = ["direct"] * 4  # fewer questions than `WARM_UP`
    assert large.styles == warm_up + ["clear", "direct"] * 4
    assert small.styles == ["direct"] * 2 + ["clear", "direct", *["clear"] * 3, "direct"]


class Noting:
    """A graph that notes who is asked what, and what runs beside it."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    async def ainvoke(self, given):
        self.log.append((self.name, given["question"].split()[2]))
        await asyncio.sleep(0)
        self.log.append((self.name, "end"))
        return {"answer": "yes", "route": "direct", "fallback": None, "calls": [CALL]}


@given(
    strategies=st.integers(1, 4), asked=st.integers(0, 9), concurrency=st.integers(1, 4)
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_strategies_take_turns_at_every_block_of_questions(strategies, asked, concurrency):
    log, seen = [], []
    names = [f"s{number}" for number in range(strategies)]
    runs = time_strategies(
        {name: Noting(name, log) for name in names},
        questions(asked),
        concurrency=concurrency,
        on_answer=lambda run: seen.append(run.strategy),
    )
    del log[: 2 * strategies * min(asked, WARM_UP)]
    blocks = [
        range(start, min(start + concurrency, asked)) for start in range(0, asked, concurrency)
    ]
    expected, order = [], []
    for number, block in enumerate(blocks):
        first = number % strategies
        for name in names[first:] + names[:first]:
            expected += [(name, str(question)) for question in block]
            expected += [(name, "end")] * len(block)
            order += [name] * len(block)
    assert log == expected
    assert seen == order
    for run in runs:
        assert [result["id"] for result in run.results] == [f"q{n}" for n in range(asked)]
        assert len(run.question_seconds) == asked
        assert max(run.question_seconds, default=0) <= run.seconds


def test_a_failure_is_counted_and_the_others_are_timed():
    small, large = models("direct")
    large.script["direct"] = lambda prompt: (
        RuntimeError("no memory left") if "number 1" in prompt else "yes"
    )
    runs = time_strategies(graphs(small, large, ["large_direct"]), questions(3))
    assert figures(runs)["large_direct", "failed"] == 1
    errors = [result["error"] for result in runs[0].results]
    assert [error is None for error in errors] == [True, False, True]
    assert "no memory left" in errors[1]
    assert len(runs[0].question_seconds) == 3
