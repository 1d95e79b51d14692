"""Sparse transfer in the graph: what is selected, handed over, recorded and told."""

import asyncio
import json
import time
from dataclasses import replace

import numpy as np
import pytest
from fakes import LAYERS, PROMPTS, AttentiveModel, models
from langchain_core.runnables import RunnableLambda
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_mai import ConfigError, SparseTransfer, create_mai, create_strategy
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.models.errors import CallTimeoutError, ModelError

QUESTION = {"question": "Is it red?"}
REASONING = "A red dot.\nA blue dot.\nAnswer: no"


def attentive(**settings):
    """A pair of models whose run ends with a transfer of `REASONING`."""
    small, large = models("transferred", AttentiveModel, **settings)
    small.script["reason"] = REASONING
    return small, large


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    def go(graph, given=QUESTION, **options):
        if request.param == "invoke":
            return graph.invoke(given, **options)
        return asyncio.run(graph.ainvoke(given, **options))

    return go


def read(model):
    """What a model read at last of a reasoning."""
    return model.calls[-1]["prompt"].partition("[")[2].removesuffix("]")


def selection_of(result):
    return result["calls"][-1]["selection"]


def weighs(**weights):
    """Words' weights by what they begin with; 0 for all others."""

    def attends(word, _layer):
        return weights.get(word.strip("[].:"), 0.0)

    return attends


def test_the_tokens_with_the_attention_are_handed_over(run):
    small, large = attentive()
    large.attends = weighs(red=5, blue=3, Answer=1, no=1)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"))
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "transferred", None)
    assert read(large) == "red blue"
    selection = selection_of(result)
    assert selection["seconds"] > 0
    assert result["calls"][-1]["seconds"] >= selection.pop("seconds")
    assert selection.pop("reached") == pytest.approx(0.8)
    assert selection == {
        "keep": "attention",
        "layer": 2,
        "share": 0.8,
        "kept_tokens": 2,
        "reasoning_tokens": 8,
        "reasoning": REASONING,
        "spans": [[1, 5], [12, 17]],
        "text": "red blue",
        "input_tokens": 12,
        "cached_tokens": 3,
    }
    assert large.passes == [{"stretch": REASONING, "layers": None, "query": -1, "timeout": None}]


def test_how_it_is_selected_can_be_set(run):
    small, large = attentive()
    large.attends = lambda word, layer: float(word == ("dot.", "Answer:", "A")[layer - 1])
    sparse = SparseTransfer(layer=3, share=0.5, query=-2)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer=sparse, timeout=60))
    assert read(large) == "A"
    assert selection_of(result)["layer"] == 3
    assert selection_of(result)["share"] == 0.5
    assert large.passes == [{"stretch": REASONING, "layers": [3], "query": -2, "timeout": 60}]


def test_the_whole_share_is_full_transfer(run):
    asked = []
    for transfer in ("full", SparseTransfer(share=1.0)):
        small, large = attentive()
        small.script["reason"] = f"\n {REASONING}  \n"
        run(create_mai(small, large, prompts=PROMPTS, transfer=transfer))
        asked.append(large.calls[-1])
    assert asked[0] == asked[1]


def test_special_tokens_are_not_handed_over(run):
    small, large = attentive()
    small.script["reason"] = "A red <end> dot.\nAnswer: no"
    result = run(create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(share=1.0)))
    assert read(large) == "A red dot.\nAnswer: no"
    assert selection_of(result)["reasoning_tokens"] == 5


def test_what_is_selected_of_a_loop_is_its_first_pass(run):
    small, large = attentive()
    small.script["reason"] = "It is red.\n" + "So it is round, and the dot is blue.\n" * 9
    large.attends = weighs(red=1.0, blue=1.0)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"))
    assert read(large) == "red. blue"
    assert selection_of(result)["reasoning"].count("blue") == 1


KEPT = {"last": "Answer: no", "sentences": "Answer: no", "small": "red dot."}


@pytest.mark.parametrize("keep", KEPT)
def test_other_ways_hand_over_as_many_tokens(run, keep):
    small, large = attentive()
    large.attends = weighs(red=4, Answer=5, no=1)
    small.attends = weighs(red=9, dot=4)
    small.script["reason"] = REASONING.replace("blue dot", "blue one")
    result = run(
        create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(keep=keep, share=0.9))
    )
    assert read(large) == KEPT[keep]
    selection = selection_of(result)
    assert (selection["keep"], selection["kept_tokens"]) == (keep, 2)
    assert selection["reached"] == pytest.approx(0.4 if keep == "small" else 0.6)
    assert selection["input_tokens"] == (24 if keep == "small" else 12)


def test_random_tokens_are_the_same_in_every_run(run):
    said = set()
    for _ in range(3):
        small, large = attentive()
        large.attends = weighs(red=4, Answer=5, no=1)
        transfer = SparseTransfer(keep="random")
        result = run(create_mai(small, large, prompts=PROMPTS, transfer=transfer))
        assert selection_of(result)["kept_tokens"] == 2
        said.add(read(large))
    assert len(said) == 1


@pytest.mark.parametrize("name", ["small_two_stage", "large_two_stage", "full_transfer"])
def test_strategies_select_by_the_readers_attention(run, name):
    small, large = attentive()
    large.script["reason"] = REASONING
    reader, other = (small, large) if name == "small_two_stage" else (large, small)
    result = run(create_strategy(name, small, large, prompts=PROMPTS, transfer="sparse"))
    assert read(reader) == "Answer: no"
    assert selection_of(result)["kept_tokens"] == 2
    assert (len(reader.passes), len(other.passes)) == (1, 0)


# Who gives the attention


def blind(route="transferred"):
    small, large = models(route)
    small.script["reason"] = REASONING
    return small, large


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: model.bind(stop=["x"]),
        lambda model: model.with_config(tags=["t"]).bind(stop=["x"]),
        lambda model: model.with_retry(stop_after_attempt=2),
        lambda model: model.with_fallbacks([blind()[1]]),
        lambda model: model.bind(stop=["x"]).with_fallbacks([blind()[1]]).with_config(tags=["t"]),
    ],
)
@pytest.mark.parametrize("given_as", ["large", "selector"])
def test_it_is_found_in_wrappers(run, wrap, given_as):
    (small, large), (_, giver) = blind(), attentive()
    wrapped = wrap(giver)
    options = {"large": wrapped} if given_as == "large" else {"large": large, "selector": wrapped}
    result = run(create_mai(small, prompts=PROMPTS, transfer="sparse", **options))
    assert result["calls"][-1]["error"] is None
    assert selection_of(result)["text"] == "Answer: no"
    assert len(giver.passes) == 1


def test_a_selector_goes_before_the_model_itself(run):
    small, large = attentive()
    other = attentive()[1]
    run(create_mai(small, large, prompts=PROMPTS, transfer="sparse", selector=other))
    assert (len(large.passes), len(other.passes)) == (0, 1)


def test_the_small_model_can_be_the_selector(run):
    small, _ = attentive()
    _, large = blind()
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse", selector=small))
    assert selection_of(result)["kept_tokens"] == 2
    assert len(small.passes) == 1


@pytest.mark.parametrize("transfer", ["sparse", SparseTransfer(share=0.5)])
@pytest.mark.parametrize("strategy", ["mai", "large_two_stage", "full_transfer"])
def test_without_attention_the_graph_is_not_made(strategy, transfer):
    small, _ = attentive()
    _, large = blind()
    with pytest.raises(ConfigError, match=r"the large model \(ScriptedModel\) does not give"):
        create_strategy(strategy, small, large, prompts=PROMPTS, transfer=transfer)


def test_a_fallback_that_gives_attention_is_another_model():
    small, large = blind()
    with pytest.raises(ConfigError, match="Sparse transfer needs attention"):
        create_mai(small, large.with_fallbacks([attentive()[1]]), transfer="sparse")


def test_small_attention_needs_a_small_model_that_gives_it():
    small, _ = blind()
    _, large = attentive()
    with pytest.raises(ConfigError, match='keep="small" needs the attention of the small model'):
        create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(keep="small"))


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name.endswith("direct")])
def test_strategies_without_a_transfer_do_without(run, name):
    graph = create_strategy(name, *blind(), prompts=PROMPTS, transfer="sparse")
    assert run(graph)["fallback"] is None


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        (blind()[1], "not ScriptedModel"),
        (AttentiveModel, "not the class AttentiveModel"),
        ("demo", "not str"),
        (RunnableLambda(len), "not RunnableLambda"),
    ],
)
@pytest.mark.parametrize("strategy", ["mai", "small_direct"])
def test_a_selector_that_gives_no_attention_is_refused(strategy, selector, named):
    with pytest.raises(ConfigError, match="`selector` must be a model that gives") as refused:
        create_strategy(strategy, *blind(), prompts=PROMPTS, selector=selector)
    assert named in str(refused.value)


# Failures, time and room


FAILURES = [
    (ModelError("The pass failed."), "The pass failed."),
    (CallTimeoutError("It took longer than 1 s."), "longer than 1 s"),
    (ValueError("odd\nthing"), "odd thing"),
    (lambda *_: float("nan"), "is no weight (the first is nan)"),
    (lambda *_: -1.0, "is no weight"),
]


@pytest.mark.parametrize(("fault", "reason"), FAILURES)
def test_a_selection_that_fails_costs_no_answer(run, fault, reason):
    small, large = attentive()
    large.attends = fault
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"))
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert large.styles == ["direct"]
    failed = result["calls"][-1]
    assert failed["error"].startswith("The selection of tokens failed: ")
    assert reason in failed["error"]
    assert "\n" not in failed["error"]
    assert "selection" not in failed


def test_a_layer_that_is_not_there_is_named(run):
    small, large = attentive()
    graph = create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(layer=LAYERS + 1))
    assert "no layer 5" in run(graph)["calls"][-1]["error"]


def test_tokens_without_text_give_way_to_one_that_can_be_read(run):
    small, large = attentive()
    small.script["reason"] = "Hm.\nAnswer: no"

    class Breaks(AttentiveModel):
        def _attention(self, messages, span, *others):
            found = super()._attention(messages, span, *others)
            spans = ((0, 3), (3, 4), (4, 11), (11, 14))
            weights = found.weights[:, [0, 0, 0, 0]] * 0 + [0.0, 1.0, 0.0, 0.0]
            return type(found)(
                **{name: getattr(found, name) for name in found.__dataclass_fields__}
                | {"spans": spans, "special": (False,) * 4, "weights": weights}
            )

    large = Breaks(**large.model_dump(exclude={"passes", "calls"}))
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"))
    assert result["calls"][-1]["error"] is None
    assert read(large).strip()
    assert result["fallback"] is None


def test_a_selection_may_fail_for_want_of_memory_and_is_tried_again(run):
    small, large = attentive()
    large.attends = MemoryError("full")

    def recovers():
        if len(large.passes) == 1:
            large.attends = weighs(red=1.0)

    class Recovering(AttentiveModel):
        def _attention(self, *args):
            recovers()
            return super()._attention(*args)

    large = Recovering(**large.model_dump(exclude={"passes", "calls"}))
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"))
    assert result["calls"][-1]["error"] is None
    assert len(large.passes) == 2


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_pass_has_the_time_of_a_call(run, timeout):
    small, large = attentive()
    run(create_mai(small, large, prompts=PROMPTS, transfer="sparse", timeout=timeout))
    assert large.passes[0]["timeout"] == timeout


def test_the_event_loop_is_free_while_tokens_are_selected():
    small, large = attentive(pause=0.3)
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse")

    async def watch():
        task = asyncio.create_task(graph.ainvoke(QUESTION))
        longest, last = 0.0, time.perf_counter()
        while not task.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        return longest, await task

    longest, result = asyncio.run(watch())
    assert result["calls"][-1]["selection"]["seconds"] > longest


def test_a_cancelled_run_gives_up_its_pass():
    small, large = attentive(pause=60)
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse")

    async def cancelled():
        task = asyncio.create_task(graph.ainvoke(QUESTION))
        while "reason" not in small.styles:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert large.given_up == 1
    assert large.styles == ["direct"]


LONG = "\n".join([*(f"Row {number} holds a dot." for number in range(60)), "Answer: no"])


def test_a_reasoning_without_room_for_a_pass_is_shortened(run):
    small, large = attentive(room=150)
    small.script["reason"] = LONG
    large.attends = lambda word, _layer: float(word == "dot.")
    events = []
    graph = create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(share=0.5))
    result = run(graph)
    transfer = result["calls"][-1]
    assert (transfer["error"], transfer["cut"]) == (None, "front")
    selection = transfer["selection"]
    assert LONG.endswith(selection["reasoning"])
    assert 100 < selection["reasoning_tokens"] < 150
    assert selection["kept_tokens"] * 10 == pytest.approx(selection["reasoning_tokens"], abs=10)
    assert large.styles == ["direct", "transfer"]
    # The pass that was refused read nothing.
    assert selection["input_tokens"] == selection["reasoning_tokens"] + 4
    for event in graph.stream(QUESTION, stream_mode="custom"):
        events += [event] if event["event"] == "reasoning_transfer" else []
    assert [(event["cut"], event["kept_tokens"]) for event in events] == [
        ("front", selection["kept_tokens"])
    ]


def test_a_selection_without_room_for_an_answer_is_made_again_of_less(run):
    small, large = attentive()
    small.script["reason"] = LONG

    def answers(prompt):
        from langgraph_mai.models.errors import ContextLengthError

        words = len(prompt.split())
        if words >= 150:
            return ContextLengthError("It is too long.", limit=150, length=words)
        return "yes"

    large.script["transfer"] = answers
    large.attends = lambda word, _layer: 1.0
    result = run(create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(share=0.9)))
    transfer = result["calls"][-1]
    assert (transfer["error"], transfer["cut"], transfer["answer"]) == (None, "front", "yes")
    selection = transfer["selection"]
    assert len(large.passes) == large.styles.count("transfer") > 1
    assert selection["input_tokens"] > 2 * selection["reasoning_tokens"]
    assert selection["cached_tokens"] == 3 * len(large.passes)
    assert read(large) == selection["text"]
    assert LONG.endswith(selection["reasoning"])


def test_a_model_without_any_room_is_given_up(run):
    small, large = attentive(room=3)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"))
    assert result["fallback"] == "large_direct"
    assert "It is too long." in result["calls"][-1]["error"]
    assert len(large.passes) <= 7


# What is told and kept


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
        result = run(create_mai(*attentive(), prompts=PROMPTS, transfer=transfer))
        used[transfer] = result["messages"][-1].usage_metadata
    assert used["sparse"]["input_tokens"] == used["full"]["input_tokens"] + 12
    assert used["sparse"]["output_tokens"] == used["full"]["output_tokens"]
    assert used["sparse"]["total_tokens"] == used["full"]["total_tokens"] + 12
    cached = {name: one["input_token_details"]["cache_read"] for name, one in used.items()}
    assert cached["sparse"] == cached["full"] + 3


def test_the_result_is_plain_data(run):
    result = run(create_mai(*attentive(), prompts=PROMPTS, transfer="sparse"))
    assert json.loads(json.dumps(result["calls"])) == result["calls"]


@pytest.fixture(params=["memory", "sqlite"])
def checkpointer(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            yield saver


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


# The cache of calls


def test_a_cached_call_selects_nothing_again(run):
    small, large = attentive()
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse", cache=InMemoryCache())
    first, second = run(graph), run(graph)
    assert first["calls"] == second["calls"]
    assert (len(large.passes), len(large.calls)) == (1, 2)


def test_a_call_is_shared_only_where_the_same_is_selected(run):
    cache = InMemoryCache()
    small, large = attentive()
    other = AttentiveModel(script={}, label="other")
    options = [
        {"transfer": "full"},
        {"transfer": "sparse"},
        {"transfer": SparseTransfer(share=0.7)},
        {"transfer": SparseTransfer(layer=3)},
        {"transfer": SparseTransfer(query=-2)},
        {"transfer": SparseTransfer(keep="last")},
        {"transfer": "sparse", "selector": other},
        {"transfer": "sparse", "selector": small},
    ]
    for number, option in enumerate(options * 2, start=1):
        run(create_mai(small, large, prompts=PROMPTS, cache=cache, **option))
        assert large.styles.count("transfer") == min(number, len(options))
    # A selector that is not asked changes nothing.
    run(create_mai(small, large, prompts=PROMPTS, cache=cache, transfer="full", selector=other))
    assert large.styles.count("transfer") == len(options)


class Nameless:
    """Gives attention, is no chat model and says nothing about itself."""

    def __init__(self):
        self.model = AttentiveModel(script={})

    def attention(self, *args, **settings):
        return self.model.attention(*args, **settings)

    async def aattention(self, *args, **settings):
        return await self.model.aattention(*args, **settings)


def test_a_selector_that_says_nothing_of_itself_equals_itself_alone(run):
    cache = InMemoryCache()
    small, large = blind()
    for transfers in (1, 2):
        nameless = Nameless()
        graph = create_mai(
            small, large, prompts=PROMPTS, cache=cache, transfer="sparse", selector=nameless
        )
        run(graph)
        run(graph)
        assert large.styles.count("transfer") == transfers
        assert len(nameless.model.passes) == 1


def test_a_selection_that_failed_is_made_again(run):
    small, large = attentive()
    large.attends = ModelError("Not now.")
    graph = create_mai(small, large, prompts=PROMPTS, transfer="sparse", cache=InMemoryCache())
    assert run(graph)["fallback"] == "large_direct"
    large.attends = weighs(red=1.0)
    assert run(graph)["fallback"] is None


class AttendsToWhiteSpace(AttentiveModel):
    """A token a character; what lies between words gets most of the attention."""

    def _attention(self, messages, span, layers, query, timeout):
        found = super()._attention(messages, span, layers, query, timeout)
        text = str(messages[-1].text)[slice(*span)]
        weights = [[9.0 if character.isspace() else 1.0 for character in text]]
        return replace(
            found,
            token_ids=tuple(range(len(text))),
            spans=tuple((at, at + 1) for at in range(len(text))),
            special=(False,) * len(text),
            weights=np.array(weights, dtype=np.float32),
        )


@pytest.mark.parametrize("keep", ["attention", "sentences", "random", "last"])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_white_space_alone_is_never_handed_over(run, keep, share):
    small, large = models("transferred", AttendsToWhiteSpace)
    small.script["reason"] = REASONING
    sparse = SparseTransfer(share=share, keep=keep)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer=sparse))
    assert result["calls"][-1]["error"] is None
    assert read(large).strip()
    assert selection_of(result)["kept_tokens"] >= 1
