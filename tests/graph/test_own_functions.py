"""A verifier or a transfer of the user's own that fails costs no answer, and is told."""

import asyncio

import pytest
from fakes import PROMPTS, QUESTION, models
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langgraph_mai import CallCache, create_strategy


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    def go(strategy="mai", route="transferred", **options):
        graph = create_strategy(strategy, *models(route), prompts=PROMPTS, **options)
        given = QUESTION
        if request.param == "invoke":
            return graph.invoke(given)
        return asyncio.run(graph.ainvoke(given))

    return go


def fails(*_texts):
    raise RuntimeError("boom\nand more")


FAULTS = [
    (fails, "boom and more"),
    (lambda *_: True, "it returned True"),
    (lambda *_: None, "it returned None"),
    (lambda *_: ["agree"], "it returned"),
    (lambda: "agree", "argument"),
]


@pytest.mark.parametrize(("verifier", "reason"), [*FAULTS, (lambda *_: "yes", "returned 'yes'")])
def test_a_verifier_that_fails_abstains(run, verifier, reason):
    result = run(route="direct", verifier=verifier)
    assert (result["answer"], result["route"]) == ("yes", "transferred")
    errors = [call["error"] for call in result["calls"] if call["role"] == "judge"]
    assert len(errors) == 2
    for error in errors:
        assert error.startswith("The verifier failed: ")
        assert reason in error
        assert "\n" not in error


TRANSFER_FAULTS = [
    (fails, "boom and more"),
    (lambda _: None, "it returned NoneType"),
    (lambda _: 3, "it returned int"),
    (lambda _: "", "an empty text"),
    (lambda _: " \n", "an empty text"),
    (lambda: "text", "argument"),
]


@pytest.mark.parametrize(
    ("strategy", "answer", "fallback"),
    [
        ("mai", "yes", "large_direct"),
        ("full_transfer", "no", "small_reason"),
        ("small_two_stage", "no", "small_reason"),
        ("large_two_stage", "yes", "large_reason"),
    ],
)
@pytest.mark.parametrize(("transfer", "reason"), TRANSFER_FAULTS)
@pytest.mark.parametrize("cache", [None, CallCache()])
def test_a_transfer_that_fails_is_marked(run, strategy, answer, fallback, transfer, reason, cache):
    result = run(strategy, transfer=transfer, cache=cache)
    assert (result["answer"], result["fallback"]) == (answer, fallback)
    failed = result["calls"][-1]
    assert failed["style"] == "transfer"
    assert failed["error"].startswith("The transfer failed: ")
    assert reason in failed["error"]


def test_an_interrupt_in_a_function_is_no_failure():
    def ask_a_person(*_answers):
        return interrupt("the same?")

    for option in ("verifier", "transfer"):
        graph = create_strategy(
            "mai",
            *models("transferred"),
            prompts=PROMPTS,
            checkpointer=InMemorySaver(),
            **{option: ask_a_person},
        )
        thread = {"configurable": {"thread_id": "1"}}
        result = graph.invoke(QUESTION, thread)
        assert result["__interrupt__"][0].value == "the same?"
        result = graph.invoke(Command(resume="agree"), thread)
        assert all(call["error"] is None for call in result["calls"])
