import pytest

from langgraph_mai.demo.held_out import held_out
from langgraph_mai.profiling.strategy_timer import StrategyTimer, graph_input


@pytest.fixture(scope="module")
def timer():
    return StrategyTimer(("small_direct", "small_reason", "mai"))


@pytest.fixture(scope="module")
def question(tmp_path_factory):
    return graph_input(held_out(tmp_path_factory.mktemp("timer"), 1)[0])


def test_a_cold_run_knows_nothing_of_the_one_before(timer, question):
    for _ in range(2):
        (call,) = timer.run("small_reason", question).calls
        assert call["cached_tokens"] == 0
    (call,) = timer.run("small_direct", question, cold=False).calls
    assert call["cached_tokens"] > 0


def test_the_overhead_is_what_passes_beside_the_calls(timer, question):
    run = timer.run("mai", question)
    direct = [call["seconds"] for call in run.calls if call["style"] == "direct"]
    others = [call["seconds"] for call in run.calls if call["style"] != "direct"]
    assert run.overhead == pytest.approx(run.seconds - max(direct) - sum(others))
    assert 0 < run.overhead < run.seconds


def test_a_run_can_be_read_by_the_processors_clock(timer, question):
    run = timer.run("small_reason", question)
    other = run.by_processor()
    assert other.seconds == run.processor_seconds > other.calls[0]["seconds"] > 0
    assert other.calls[0]["text"] == run.calls[0]["text"]
    assert other.overhead < other.seconds
