"""Sparse transfer in the graph: what is told, kept and taken from the cache of calls."""

import json

from fakes import PROMPTS, AttentiveModel
from sparse_runs import QUESTION, REASONING, attentive, weighs

from langgraph_mai import CallCache, create_mai
from langgraph_mai.models.errors import ModelError


def test_whoever_watches_is_told_how_much_is_handed_over():
    small, large = attentive()
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse")
    events = list(graph.stream(QUESTION, stream_mode="custom"))
    (told,) = [event for event in events if event["event"] == "reasoning_transfer"]
    assert told == {
        "event": "reasoning_transfer",
        "source": "small",
        "target": "large",
        "cut": None,
        "characters": len("Answer: no"),
        "characters_written": len(REASONING),
        "kept_tokens": 2,
        "reasoning_tokens": 8,
    }


def test_the_usage_counts_what_was_read_to_select(run):
    used = {}
    for transfer in ("full", "sparse"):
        result = run(create_mai(*attentive(), prompts=PROMPTS, transfer=transfer), QUESTION)
        used[transfer] = result["messages"][-1].usage_metadata
    assert used["sparse"]["input_tokens"] == used["full"]["input_tokens"] + 12
    assert used["sparse"]["output_tokens"] == used["full"]["output_tokens"]
    assert used["sparse"]["total_tokens"] == used["full"]["total_tokens"] + 12
    cached = {name: one["input_token_details"]["cache_read"] for name, one in used.items()}
    assert cached["sparse"] == cached["full"] + 3


def test_the_result_is_plain_data(run):
    result = run(create_mai(*attentive(), prompts=PROMPTS, transfer="sparse"), QUESTION)
    assert json.loads(json.dumps(result["calls"])) == result["calls"]


def test_a_thread_is_resumed_before_and_behind_the_selection(checkpointer):
    small, large = attentive()
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse", checkpointer=checkpointer)
    thread = {"configurable": {"thread_id": "1"}}
    graph.invoke(QUESTION, thread, interrupt_before=["reasoning_transfer"])
    assert large.passes == []
    graph.invoke(None, thread, interrupt_before=["respond"])
    kept = graph.get_state(thread).values["large_transfer"]["selection"]
    result = graph.invoke(None, thread)
    assert result["calls"][-1]["selection"] == kept
    assert kept["text"] == "Answer: no"
    assert len(large.passes) == 1


class Nameless:
    """Gives attention, is no chat model and says nothing about itself."""

    def __init__(self):
        self.model = AttentiveModel(script={})

    def attention(self, *args, **settings):
        return self.model.attention(*args, **settings)

    async def aattention(self, *args, **settings):
        return await self.model.aattention(*args, **settings)


def test_a_selection_that_failed_is_made_again(run):
    small, large = attentive()
    large.attends = ModelError("Not now.")
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse", cache=CallCache())
    assert run(graph, QUESTION)["fallback"] == "large_direct"
    large.attends = weighs(red=1.0)
    assert run(graph, QUESTION)["fallback"] is None
