from fakes import PROMPTS, ScriptedModel, models

from langgraph_mai import create_strategy
from langgraph_mai.benchmarks.evaluation.timed import WARM_UP, time_strategies
from langgraph_mai.benchmarks.evaluation.timing import timed_lines, timing_records
from langgraph_mai.benchmarks.question import BenchmarkQuestion

STRATEGIES = ("mai", "large_direct")


class Forgetful(ScriptedModel):
    """Notes in its calls when it is told to forget."""

    def forget_prefixes(self) -> None:
        self.calls.append({"style": "forget"})


def questions(count: int) -> list[BenchmarkQuestion]:
    return [
        BenchmarkQuestion(
            id=f"q{number}",
            question=f"Is number {number} red?",
            images=(),
            answers=("yes",),
            answer_type="yes_no",
        )
        for number in range(count)
    ]


def graphs(small, large, names=STRATEGIES):
    return {name: create_strategy(name, small, large, prompts=PROMPTS) for name in names}


def figures(runs) -> dict[tuple[str, str], float | None]:
    return {(one["strategy"], one["name"]): one["value"] for one in timing_records(runs)}


def test_every_question_is_asked_for_real_after_a_warm_up():
    small, large = models("transferred")
    runs = time_strategies(graphs(small, large), questions(5))
    assert [run.strategy for run in runs] == list(STRATEGIES)
    assert [result["id"] for result in runs[0].results] == [f"q{n}" for n in range(5)]
    assert small.styles.count("direct") == 5 + WARM_UP
    assert large.styles.count("direct") == 2 * (5 + WARM_UP)
    assert len(list(timed_lines(runs))) == 10


def test_calls_and_tokens_by_role_and_style_add_up():
    runs = time_strategies(graphs(*models("transferred")), questions(4))
    seen = figures(runs)
    assert seen["mai", "calls"] == 16
    for kind, each in (("calls", 1), ("input_tokens", 100), ("cached_tokens", 10)):
        parts = ("small.direct", "large.direct", "small.reason", "large.transfer")
        assert [seen["mai", f"{kind}.{part}"] for part in parts] == [4 * each] * 4
    assert seen["mai", "output_tokens.small.reason"] == 4 * 3  # Hm. Answer: no
    assert seen["large_direct", "calls"] == 4


def test_models_forget_prompts_between_strategies():
    small, large = models("direct", kind=Forgetful)
    time_strategies(graphs(small, large), questions(2), models=(small, large))
    assert small.styles.count("forget") == large.styles.count("forget") == 2
    # Once after the warm-up, and once before the second strategy.
    assert large.styles == ["direct"] * 4 + (["forget"] + ["direct"] * 2) * 2


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
