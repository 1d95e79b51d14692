"""A verifier, a Judge or a transfer of the user's own; one that fails costs no answer."""

import pytest
from fakes import PROMPTS, QUESTION, ScriptedModel, models
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langgraph_mai import CallCache, Judge, create_mai, create_strategy


def fails(*_texts):
    raise RuntimeError("boom\nand more")


@pytest.mark.parametrize(
    ("verifier", "reason"),
    [
        (fails, "boom and more"),
        (lambda *_: True, "it returned True"),
        (lambda *_: None, "it returned None"),
        (lambda *_: ["agree"], "it returned"),
        (lambda: "agree", "argument"),
        (lambda *_: "yes", "returned 'yes'"),
    ],
)
def test_a_verifier_that_fails_abstains(run, verifier, reason):
    graph = create_mai(*models("direct"), prompts=PROMPTS, verifier=verifier)
    result = run(graph, QUESTION)
    assert (result["answer"], result["route"]) == ("yes", "transferred")
    errors = [call["error"] for call in result["calls"] if call["role"] == "judge"]
    assert len(errors) == 2
    for error in errors:
        assert error.startswith("The verifier failed: ")
        assert reason in error
        assert "\n" not in error


FAULTS = [
    (fails, "boom and more"),
    (lambda _: None, "it returned NoneType"),
    (lambda _: 3, "it returned int"),
    (lambda _: "", "an empty text"),
    (lambda _: " \n", "an empty text"),
    (lambda: "text", "argument"),
]
STRATEGIES = [
    ("mai", "yes", "large_direct"),
    ("full_transfer", "no", "small_reason"),
    ("small_two_stage", "no", "small_reason"),
    ("large_two_stage", "yes", "large_reason"),
]


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [*((STRATEGIES[0], fault) for fault in FAULTS), *((one, FAULTS[0]) for one in STRATEGIES[1:])],
)
def test_a_transfer_that_fails_is_marked(run, strategy, fault):
    (name, answer, fallback), (transfer, reason) = strategy, fault
    for cache in (None, CallCache()):
        options = {"prompts": PROMPTS, "transfer": transfer, "cache": cache}
        result = run(create_strategy(name, *models("transferred"), **options), QUESTION)
        assert (result["answer"], result["fallback"]) == (answer, fallback)
        failed = result["calls"][-1]
        assert failed["style"] == "transfer"
        assert failed["error"].startswith("The transfer failed: ")
        assert reason in failed["error"]


@pytest.mark.parametrize("option", ["verifier", "transfer"])
def test_an_interrupt_in_a_function_is_no_failure(option):
    options = {option: lambda *_: interrupt("the same?"), "checkpointer": InMemorySaver()}
    graph = create_mai(*models("transferred"), prompts=PROMPTS, **options)
    thread = {"configurable": {"thread_id": "1"}}
    result = graph.invoke(QUESTION, thread)
    assert result["__interrupt__"][0].value == "the same?"
    result = graph.invoke(Command(resume="agree"), thread)
    assert all(call["error"] is None for call in result["calls"])


SHORT = {"question": "What is it?", "answer_type": "short_text"}


@pytest.mark.parametrize(
    ("says", "given", "judge", "route", "asked"),
    [
        (("a car", "an automobile"), SHORT, "Yes.", "direct", 1),
        (("a car", "a boat"), SHORT, "No, they differ.", "transferred", 2),
        (("no", "yes"), {}, "Yes.", "transferred", 0),  # exact values need no judge
        (("a car", "A car."), SHORT, "No.", "direct", 0),  # nor do equal answers
        # Without a verdict the answers do not agree.
        (("a car", "a boat"), SHORT, "Perhaps.", "transferred", 2),
        (("a car", "a boat"), SHORT, RuntimeError("busy"), "transferred", 2),
    ],
)
def test_a_judge_is_called_where_a_rule_cannot_tell(run, says, given, judge, route, asked):
    small, large = models("transferred")
    small.script["direct"], large.script["direct"] = says
    model = ScriptedModel(script={"judge": judge}, label="judge")
    result = run(create_mai(small, large, prompts=PROMPTS, verifier=Judge(model)), QUESTION | given)
    assert result["route"] == route
    judged = [call for call in result["calls"] if call["role"] == "judge"]
    assert len(model.calls) == len(judged) == asked
    assert all((call["error"] is None) == isinstance(judge, str) for call in judged)
    if asked:
        texts = ("What is it?", says[0].split()[-1], says[1].split()[-1])
        assert all(text in model.calls[0]["prompt"] for text in texts)
    if route == "direct":
        assert result["answer"] == says[1].rstrip(".")
