"""A reasoning that the reading model has no room for is shortened from its front."""

import pytest
from chat_servers import answers, has_context
from fakes import PROMPTS, QUESTION, ScriptedModel, scripts
from langchain_core.exceptions import ContextOverflowError

from langgraph_mai import ChatServer, ChatTransformers, create_mai, create_strategy
from langgraph_mai.models.errors import ContextLengthError

LINES = [f"Row {number} holds {number % 7} dots." for number in range(60)]
REASONING = "\n".join([*LINES, "Answer: no"])
LIMIT = 150


def reader(error_of) -> ScriptedModel:
    """A large model that reads prompts of fewer than `LIMIT` words."""

    def read(prompt: str):
        words = len(prompt.split())
        return error_of(words) if words >= LIMIT else "yes"

    return ScriptedModel(script=scripts("transferred")[1] | {"transfer": read}, label="large")


def reasoner() -> ScriptedModel:
    script = scripts("transferred")[0] | {"reason": REASONING}
    return ScriptedModel(script=script, label="small")


def read_prompt(model: ScriptedModel) -> str:
    """What the model read at last of a reasoning."""
    return model.calls[-1]["prompt"].partition("[")[2].removesuffix("]")


ERRORS = {
    "exact": lambda words: ContextLengthError("It is too long.", limit=LIMIT, length=words),
    "limit": lambda _: ContextLengthError("It is too long.", limit=LIMIT),
    "bare": lambda _: ContextOverflowError("It is too long."),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_the_end_of_a_reasoning_is_read(kind, run):
    large = reader(ERRORS[kind])
    result = run(create_mai(reasoner(), large, prompts=PROMPTS), QUESTION)
    assert (result["route"], result["answer"], result["fallback"]) == ("transferred", "yes", None)
    *others, transfer = result["calls"]
    assert transfer["cut"] == "front"
    assert transfer["error"] is None
    assert [call["cut"] for call in others] == [None] * 3
    read = read_prompt(large)
    assert REASONING.endswith(read)
    assert read.startswith("Row ")
    # Half of the room is used at least; nearly all of it where the model counts.
    room = LIMIT - PROMPTS.transfer.max_tokens - 5
    assert len(read.split()) > room * (0.9 if kind == "exact" else 0.4)


def test_a_model_without_any_room_is_given_up(run):
    large = reader(ERRORS["exact"])
    large.script["transfer"] = ContextLengthError("No room at all.")
    result = run(create_mai(reasoner(), large, prompts=PROMPTS), QUESTION)
    assert (result["route"], result["answer"]) == ("transferred", "yes")
    assert result["fallback"] == "large_direct"
    transfer = result["calls"][-1]
    assert transfer["error"] == "The large model's transfer call failed: No room at all."
    assert transfer["cut"] is None
    assert large.styles.count("transfer") <= 7


def test_two_stage_shortens_too():
    model = ScriptedModel(
        script={"reason": REASONING, "transfer": reader(ERRORS["exact"]).script["transfer"]}
    )
    result = create_strategy("large_two_stage", model, model, prompts=PROMPTS).invoke(QUESTION)
    assert result["calls"][-1]["cut"] == "front"
    assert result["answer"] == "yes"


def test_whoever_watches_is_told():
    graph = create_mai(reasoner(), reader(ERRORS["exact"]), prompts=PROMPTS)
    events = [
        event
        for event in graph.stream(QUESTION, stream_mode="custom")
        if event["event"] == "reasoning_transfer"
    ]
    first, *shortened = events
    assert (first["cut"], first["characters"]) == (None, len(REASONING))
    assert shortened
    assert {event["cut"] for event in shortened} == {"front"}
    assert all(event["characters_written"] == len(REASONING) for event in events)
    sizes = [event["characters"] for event in events]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("exact", [True, False])
def test_through_a_server(exact, server, run):
    server.otherwise = has_context(LIMIT, answers("yes"), exact=exact)
    large = ChatServer(model="m", base_url=server.url, max_retries=0)
    result = run(create_mai(reasoner(), large, prompts=PROMPTS), QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", None)
    assert result["calls"][-1]["cut"] == "front"
    read = server.requests[-1]["body"]["messages"][-1]["content"][-1]["text"]
    assert "Answer: no" in read
    assert LINES[0] not in read


def test_through_a_local_model(demo_weights):
    large = ChatTransformers(model=str(demo_weights / "small"), device="cpu", dtype="float32")
    lines = LINES * 8
    assert large.get_num_tokens("\n".join(lines)) > 2048  # its context
    small = reasoner()
    small.script["reason"] = "\n".join([*lines, "Answer: no"])
    result = create_strategy("full_transfer", small, large, prompts=PROMPTS).invoke(QUESTION)
    transfer = result["calls"][-1]
    assert transfer["error"] is None
    assert transfer["cut"] == "front"
