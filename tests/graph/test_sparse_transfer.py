"""Sparse transfer in the graph: what is selected and transferred, what it costs, what fails."""

import asyncio
import json
import time
from dataclasses import replace

import numpy as np
import pytest
from fakes import LAYERS, PROMPTS, QUESTION, AttentiveModel, models
from langchain_core.runnables import RunnableLambda

from langgraph_mai import CallCache, ConfigError, SparseTransfer, create_mai, create_strategy
from langgraph_mai.models.errors import CallTimeoutError, ContextLengthError, ModelError

REASONING = "A red dot.\nA blue dot.\nAnswer: no"
LONG = "\n".join([*(f"Row {number} holds a dot." for number in range(60)), "Answer: no"])


def weighs(**weights):
    """Words' weights by what they begin with; 0 for all others."""
    return lambda word, _layer: weights.get(word.strip("[].:"), 0.0)


def pair(route="transferred", kind=AttentiveModel, reasoning=REASONING, attends=None, **settings):
    small, large = models(route, kind, **settings)
    small.script["reason"] = reasoning
    if attends:
        large.attends = attends
    return small, large


def blind():
    """The same, of models that give no attention."""
    small, large = models("transferred")
    small.script["reason"] = REASONING
    return small, large


def made(small, large, transfer="sparse", **options):
    return create_mai(small, large, prompts=PROMPTS, transfer=transfer, **options)


def read(model):
    """What a model read at last of a reasoning."""
    return model.calls[-1]["prompt"].partition("[")[2].removesuffix("]")


def selection_of(result):
    assert result["calls"][-1]["error"] is None
    return result["calls"][-1]["selection"]


def test_the_tokens_with_the_attention_are_transferred(run):
    small, large = pair(attends=weighs(red=5, blue=3, Answer=1, no=1))
    result = run(made(small, large), QUESTION)
    assert (result["answer"], result["route"], result["fallback"]) == ("yes", "transferred", None)
    assert read(large) == "red blue"
    selection = dict(selection_of(result))
    assert result["calls"][-1]["seconds"] >= selection.pop("seconds") > 0
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
    assert json.loads(json.dumps(result["calls"])) == result["calls"]


def test_how_it_is_selected_can_be_set():
    at_layer = lambda word, layer: float(word == ("dot.", "Answer:", "A")[layer - 1])  # noqa: E731
    small, large = pair(attends=at_layer)
    sparse = SparseTransfer(layer=3, share=0.5, query=-2)
    selection = selection_of(made(small, large, sparse, timeout=60).invoke(QUESTION))
    assert (read(large), selection["layer"], selection["share"]) == ("A", 3, 0.5)
    assert large.passes == [{"stretch": REASONING, "layers": [3], "query": -2, "timeout": 60}]


@pytest.mark.parametrize(
    ("reasoning", "share", "text", "tokens"),
    [
        ("A red <end> dot.\nAnswer: no", 1.0, "A red dot.\nAnswer: no", 5),  # no special token
        ("It is red.\n" + "So it is round, and the dot is blue.\n" * 9, 0.8, "red. blue", 12),
    ],
)
def test_what_is_never_transferred(reasoning, share, text, tokens):
    small, large = pair(reasoning=reasoning)
    if share < 1:
        large.attends = weighs(red=1.0, blue=1.0)
    selection = selection_of(made(small, large, SparseTransfer(share=share)).invoke(QUESTION))
    assert (read(large), selection["reasoning_tokens"]) == (text, tokens)


KEPT = {"last": "Answer: no", "sentences": "Answer: no", "small": "red dot.", "random": None}


@pytest.mark.parametrize("keep", KEPT)
def test_other_ways_transfer_as_many_tokens(keep):
    texts = set()
    for _ in range(2):
        small, large = pair(
            reasoning=REASONING.replace("blue dot", "blue one"),
            attends=weighs(red=4, Answer=5, no=1),
        )
        small.attends = weighs(red=9, dot=4)
        sparse = SparseTransfer(keep=keep, share=0.9)
        selection = selection_of(made(small, large, sparse).invoke(QUESTION))
        texts.add(read(large))
        assert (selection["keep"], selection["kept_tokens"]) == (keep, 2)
        assert selection["input_tokens"] == (24 if keep == "small" else 12)
        if keep != "random":
            assert selection["reached"] == pytest.approx(0.4 if keep == "small" else 0.6)
    assert len(texts) == 1
    assert KEPT[keep] in {*texts, None}


@pytest.mark.parametrize("name", ["small_two_stage", "large_two_stage", "full_transfer"])
def test_strategies_select_by_the_readers_attention(name):
    small, large = pair()
    large.script["reason"] = REASONING
    reader, other = (small, large) if name == "small_two_stage" else (large, small)
    result = create_strategy(name, small, large, prompts=PROMPTS, transfer="sparse").invoke(
        QUESTION
    )
    assert read(reader) == "Answer: no"
    assert selection_of(result)["kept_tokens"] == 2
    assert (len(reader.passes), len(other.passes)) == (1, 0)


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
def test_white_space_alone_is_never_transferred(keep, share):
    small, large = pair(kind=AttendsToWhiteSpace)
    result = made(small, large, SparseTransfer(share=share, keep=keep)).invoke(QUESTION)
    assert selection_of(result)["kept_tokens"] >= 1
    assert read(large).strip()


def test_events_and_usage_tell_what_was_read_and_transferred():
    events = made(*pair()).stream(QUESTION, stream_mode="custom")
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
    full, sparse = (
        made(*pair(), transfer).invoke(QUESTION)["messages"][-1].usage_metadata
        for transfer in ("full", "sparse")
    )
    assert sparse["input_tokens"] == full["input_tokens"] + 12
    assert sparse["total_tokens"] == full["total_tokens"] + 12
    assert (
        sparse["input_token_details"]["cache_read"] == full["input_token_details"]["cache_read"] + 3
    )


# Who gives the attention


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: model.with_config(tags=["t"]).bind(stop=["x"]),
        lambda model: model.with_retry(stop_after_attempt=2),
        lambda model: model.bind(stop=["x"]).with_fallbacks([blind()[1]]).with_config(tags=["t"]),
    ],
)
@pytest.mark.parametrize("given_as", ["large", "selector"])
def test_it_is_found_in_wrappers(run, wrap, given_as):
    (small, large), (_, giver) = blind(), pair()
    wrapped = wrap(giver)
    options = {"large": wrapped} if given_as == "large" else {"large": large, "selector": wrapped}
    assert selection_of(run(made(small, **options), QUESTION))["text"] == "Answer: no"
    assert len(giver.passes) == 1


def test_a_selector_goes_before_the_model_itself():
    (small, large), (_, other) = pair(), pair()
    made(small, large, selector=other).invoke(QUESTION)
    assert (len(large.passes), len(other.passes)) == (0, 1)
    made(small, large, selector=small).invoke(QUESTION)
    assert (len(large.passes), len(small.passes)) == (0, 1)


@pytest.mark.parametrize("strategy", ["mai", "large_two_stage", "full_transfer"])
def test_without_attention_the_graph_is_not_made(strategy):
    (small, _), (_, large) = pair(), blind()
    refusal = r"the large model \(ScriptedModel\) does not give"
    for transfer in ("sparse", SparseTransfer(share=0.5)):
        for reader in (large, large.with_fallbacks([pair()[1]])):
            with pytest.raises(ConfigError, match=refusal):
                create_strategy(strategy, small, reader, prompts=PROMPTS, transfer=transfer)
    with pytest.raises(ConfigError, match='keep="small" needs the attention of the small model'):
        made(blind()[0], pair()[1], SparseTransfer(keep="small"))
    for name in ("small_direct", "large_direct"):  # without a transfer they do without
        graph = create_strategy(name, *blind(), prompts=PROMPTS, transfer="sparse")
        assert graph.invoke(QUESTION)["fallback"] is None


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        (blind()[1], "not ScriptedModel"),
        (AttentiveModel, "not the class AttentiveModel"),
        ("demo", "not str"),
        (RunnableLambda(len), "not RunnableLambda"),
    ],
)
def test_a_selector_that_gives_no_attention_is_refused(selector, named):
    for strategy in ("mai", "small_direct"):
        with pytest.raises(ConfigError, match=f"`selector` must be a model that gives .*{named}"):
            create_strategy(strategy, *blind(), prompts=PROMPTS, selector=selector)


# Failures, time and context


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ModelError("The pass failed."), "The pass failed."),
        (CallTimeoutError("It took longer than 1 s."), "longer than 1 s"),
        (ValueError("odd\nthing"), "odd thing"),
        (lambda *_: float("nan"), "is no weight (the first is nan)"),
        (None, f"no layer {LAYERS + 1}"),
    ],
)
def test_a_selection_that_fails_costs_no_answer(run, fault, reason):
    small, large = pair(attends=fault)
    cache = CallCache()
    sparse = SparseTransfer() if fault else SparseTransfer(layer=LAYERS + 1)
    result = run(made(small, large, sparse, cache=cache), QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert large.styles == ["direct"]
    failed = result["calls"][-1]
    assert failed["error"].startswith("The selection of tokens failed: ")
    assert reason in failed["error"]
    assert "\n" not in failed["error"]
    assert "selection" not in failed
    if isinstance(fault, Exception):  # what failed was not stored
        large.attends = weighs(red=1.0)
        assert run(made(small, large, cache=cache), QUESTION)["fallback"] is None


def test_a_selection_that_fails_for_want_of_memory_is_made_again(run):
    class Recovering(AttentiveModel):
        def _attention(self, *args):
            self.attends = weighs(red=1.0) if self.passes else MemoryError("full")
            return super()._attention(*args)

    small, large = pair(kind=Recovering)
    assert selection_of(run(made(small, large), QUESTION))
    assert len(large.passes) == 2


async def test_the_event_loop_is_free_while_tokens_are_selected():
    small, large = pair(pause=0.3)
    task = asyncio.create_task(made(small, large).ainvoke(QUESTION))
    longest, last = 0.0, time.perf_counter()
    while not task.done():
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    assert selection_of(await task)["seconds"] > longest


async def test_a_cancelled_run_gives_up_its_pass():
    small, large = pair(pause=60)
    task = asyncio.create_task(made(small, large).ainvoke(QUESTION))
    while "reason" not in small.styles:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (large.given_up, large.styles) == (1, ["direct"])


def test_a_reasoning_without_room_for_a_pass_is_shortened():
    small, large = pair(room=150, reasoning=LONG, attends=weighs(dot=1.0))
    graph = made(small, large, SparseTransfer(share=0.5))
    result = graph.invoke(QUESTION)
    selection = selection_of(result)
    assert result["calls"][-1]["cut"] == "front"
    assert LONG.endswith(selection["reasoning"])
    assert 100 < selection["reasoning_tokens"] < 150
    assert selection["kept_tokens"] * 10 == pytest.approx(selection["reasoning_tokens"], abs=10)
    assert large.styles == ["direct", "transfer"]
    # The pass that was refused read nothing.
    assert selection["input_tokens"] == selection["reasoning_tokens"] + 4
    events = list(graph.stream(QUESTION, stream_mode="custom"))
    told = [one for one in events if one["event"] == "reasoning_transfer"]
    kept = [(one["cut"], one["kept_tokens"]) for one in told]
    assert kept == [("front", selection["kept_tokens"])]


def test_a_selection_without_room_for_an_answer_is_made_again_of_less():
    def answers(prompt):
        words = len(prompt.split())
        too_long = ContextLengthError("It is too long.", limit=150, length=words)
        return too_long if words >= 150 else "yes"

    small, large = pair(reasoning=LONG, attends=lambda *_: 1.0)
    large.script["transfer"] = answers
    result = made(small, large, SparseTransfer(share=0.9)).invoke(QUESTION)
    selection = selection_of(result)
    assert (result["calls"][-1]["cut"], result["calls"][-1]["answer"]) == ("front", "yes")
    assert len(large.passes) == large.styles.count("transfer") > 1
    assert selection["input_tokens"] > 2 * selection["reasoning_tokens"]
    assert selection["cached_tokens"] == 3 * len(large.passes)
    assert read(large) == selection["text"]
    assert LONG.endswith(selection["reasoning"])


def test_a_model_without_any_room_is_given_up():
    small, large = pair(room=3)
    result = made(small, large).invoke(QUESTION)
    assert result["fallback"] == "large_direct"
    assert "It is too long." in result["calls"][-1]["error"]
    assert len(large.passes) <= 7
