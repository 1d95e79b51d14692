import threading
from pathlib import Path

import pytest
from fakes import PROMPTS, models
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from langgraph_mai import (
    MAIContext,
    MAIInputError,
    create_mai,
    create_mai_batch,
    create_strategy,
    load_pair,
)

PICTURES = Path(__file__).parents[2] / "demo" / "pictures"
THREAD = {"configurable": {"thread_id": "1"}}


def counting():
    """A pair that answers with the first word of the question."""
    small, large = models()
    small.script["direct"] = large.script["direct"] = lambda prompt: prompt.split()[0]
    return small, large


def dots(numbers):
    return [
        {"question": f"{number} dots: how many?", "answer_type": "number"} for number in numbers
    ]


def test_answers_come_in_the_order_of_the_questions(run):
    small, large = counting()
    # The first questions take longest.
    waits = iter(range(12, 0, -1))
    lock = threading.Lock()

    def hold():
        with lock:
            wait = next(waits, 0)
        threading.Event().wait(wait / 100)

    small.before = hold
    batch = create_mai_batch(create_mai(small, large, prompts=PROMPTS))
    answers = run(batch, {"questions": dots(range(12))})["answers"]
    assert [answer["answer"] for answer in answers] == [str(number) for number in range(12)]
    assert [answer["question"] for answer in answers] == [q["question"] for q in dots(range(12))]


def test_a_question_that_fails_does_not_fail_the_others(run):
    small, large = counting()
    batch = create_mai_batch(create_mai(small, large, prompts=PROMPTS))
    small.script["direct"] = large.script["direct"] = lambda p: (
        p.split()[0] if p[0] != "2" else boom
    )
    boom = RuntimeError("busy")
    questions = [*dots(range(3)), {"question": "Who?", "images": ["/nowhere.png"]}, {}]
    answers = run(batch, {"questions": questions})["answers"]
    assert [answer["answer"] for answer in answers] == ["0", "1", None, None, None]
    errors = [answer["error"] for answer in answers]
    assert errors[:2] == [None, None]
    assert "busy" in errors[2]
    assert "nowhere.png" in errors[3]
    assert "nothing to ask" in errors[4]


def test_no_questions_no_answers(run):
    batch = create_mai_batch(create_mai(*counting(), prompts=PROMPTS))
    assert run(batch, {"questions": []}) == {"answers": []}


@pytest.mark.parametrize(
    ("questions", "said"),
    [(None, "give `questions`"), ("Is it red?", "give `questions`"), (["Is it red?"], "not str")],
)
def test_other_inputs_are_refused(questions, said):
    batch = create_mai_batch(create_mai(*counting(), prompts=PROMPTS))
    with pytest.raises(MAIInputError, match=said):
        batch.invoke({"questions": questions})


def test_the_next_batch_on_a_thread_starts_afresh(run):
    batch = create_mai_batch(create_mai(*counting(), prompts=PROMPTS), checkpointer=InMemorySaver())
    run(batch, {"questions": dots([1, 2])}, THREAD)
    answers = run(batch, {"questions": dots([3])}, THREAD)["answers"]
    assert [answer["answer"] for answer in answers] == ["3"]


def test_the_context_reaches_every_question(run):
    small, large = counting()
    batch = create_mai_batch(create_mai(small, large, prompts=PROMPTS))
    run(batch, {"questions": dots(range(3))}, context=MAIContext(max_tokens_direct=7))
    assert {call["max_tokens"] for call in small.calls} == {7}


def test_persons_are_asked_about_each_question_on_its_own(run):
    mai = create_mai(*models("transferred"), prompts=PROMPTS, review=True)
    batch = create_mai_batch(mai, checkpointer=InMemorySaver())
    questions = [{"question": f"Is it red, picture {number}?"} for number in range(3)]
    stopped = run(batch, {"questions": questions}, THREAD)
    asked = {one.value["question"]: one.id for one in stopped["__interrupt__"]}
    assert sorted(asked) == [question["question"] for question in questions]
    said = {asked[name]: "" if "1" in name else "no" for name in asked}
    answers = run(batch, Command(resume=said), THREAD)["answers"]
    assert [answer["answer"] for answer in answers] == ["no", "yes", "no"]
    assert [answer["fallback"] for answer in answers] == ["review", None, "review"]


def test_strategies_run_in_batches_too(run):
    small, large = counting()
    batch = create_mai_batch(create_strategy("small_direct", small, large, prompts=PROMPTS))
    answers = run(batch, {"questions": dots(range(3))})["answers"]
    assert [answer["answer"] for answer in answers] == ["0", "1", "2"]
    assert large.calls == []


def test_what_goes_on_inside_is_streamed():
    batch = create_mai_batch(create_mai(*counting(), prompts=PROMPTS))
    events = list(batch.stream({"questions": dots(range(2))}, stream_mode="custom", subgraphs=True))
    routes = [event for _, event in events if event["event"] == "route"]
    assert sorted(event["answer"] for event in routes) == ["0", "1"]
    assert len({namespace for namespace, _ in events}) == 2


def test_the_drawing_shows_the_cascade_inside():
    batch = create_mai_batch(create_mai(*counting(), prompts=PROMPTS))
    outside = {(edge.source, edge.target) for edge in batch.get_graph().edges}
    assert outside == {
        ("__start__", "split"),
        ("split", "ask"),
        ("split", "__end__"),
        ("ask", "__end__"),
    }
    assert "ask:verification" in batch.get_graph(xray=True).nodes


def test_send_to_the_cascade_itself_keeps_the_order(run):
    """A graph of your own, without the batch: one `Send` a question."""

    class Album(MessagesState):
        questions: list[str]

    graph = StateGraph(Album)
    graph.add_node("mai", create_mai(*counting(), prompts=PROMPTS))
    graph.add_conditional_edges(
        START, lambda state: [Send("mai", {"question": q}) for q in state["questions"]], ["mai"]
    )
    given = {"questions": [question["question"] for question in dots(range(6))]}
    messages = run(graph.compile(), given)["messages"]
    assert [message.text for message in messages] == [str(number) for number in range(6)]


def test_the_demo_pair_answers_a_batch_as_it_answers_one_by_one(run):
    pair = load_pair()
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
    questions = [
        {"question": "Which bar is the highest?", "images": [str(PICTURES / "chart.png")]},
        {
            "question": "How many red shapes are there in the picture?",
            "images": [str(PICTURES / "shapes.png")],
        },
        {
            "question": "How many squares can you see in the top row?",
            "images": [str(PICTURES / "squares.png")],
        },
    ]
    answers = run(create_mai_batch(mai), {"questions": questions})["answers"]
    single = [mai.invoke(question) for question in questions]
    assert [(a["answer"], a["route"]) for a in answers] == [
        (result["answer"], result["route"]) for result in single
    ]
    assert [a["route"] for a in answers] == ["direct", "reasoned", "transferred"]
