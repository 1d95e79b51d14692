"""Questions through a graph, one by one and at once; what is lost is counted."""

from fakes import PROMPTS, models

from langgraph_mai import create_mai
from langgraph_mai.benchmarks.throughput import all_at_once, one_by_one

QUESTIONS = [{"question": f"Is {n} red?", "images": []} for n in range(5)]


def test_every_question_is_answered_in_order():
    graph = create_mai(*models("direct"), prompts=PROMPTS)
    for ask in (one_by_one, all_at_once):
        made = ask(graph, QUESTIONS)
        assert [result["answer"] for result in made.results] == ["yes"] * 5
        assert made.rate > 0
        assert made.lost == 0


def test_a_failed_call_counts_as_lost():
    small, large = models("direct")
    large.script["direct"] = RuntimeError("out of order")
    made = all_at_once(create_mai(small, large, prompts=PROMPTS), QUESTIONS)
    assert made.lost == 5
