"""Sparse transfer in the graph: what is selected and handed over."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import PROMPTS, AttentiveModel, models
from sparse_runs import QUESTION, REASONING, attentive, read, selection_of, weighs

from langgraph_mai import SparseTransfer, create_mai, create_strategy


def test_the_tokens_with_the_attention_are_handed_over(run):
    small, large = attentive()
    large.attends = weighs(red=5, blue=3, Answer=1, no=1)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
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
    result = run(create_mai(small, large, prompts=PROMPTS, transfer=sparse, timeout=60), QUESTION)
    assert read(large) == "A"
    assert selection_of(result)["layer"] == 3
    assert selection_of(result)["share"] == 0.5
    assert large.passes == [{"stretch": REASONING, "layers": [3], "query": -2, "timeout": 60}]


def test_the_whole_share_is_full_transfer(run):
    asked = []
    for transfer in ("full", SparseTransfer(share=1.0)):
        small, large = attentive()
        small.script["reason"] = f"\n {REASONING}  \n"
        run(create_mai(small, large, prompts=PROMPTS, transfer=transfer), QUESTION)
        asked.append(large.calls[-1])
    assert asked[0] == asked[1]


def test_special_tokens_are_not_handed_over(run):
    small, large = attentive()
    small.script["reason"] = "A red <end> dot.\nAnswer: no"
    result = run(
        create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(share=1.0)), QUESTION
    )
    assert read(large) == "A red dot.\nAnswer: no"
    assert selection_of(result)["reasoning_tokens"] == 5


def test_what_is_selected_of_a_loop_is_its_first_pass(run):
    small, large = attentive()
    small.script["reason"] = "It is red.\n" + "So it is round, and the dot is blue.\n" * 9
    large.attends = weighs(red=1.0, blue=1.0)
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
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
        create_mai(small, large, prompts=PROMPTS, transfer=SparseTransfer(keep=keep, share=0.9)),
        QUESTION,
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
        result = run(create_mai(small, large, prompts=PROMPTS, transfer=transfer), QUESTION)
        assert selection_of(result)["kept_tokens"] == 2
        said.add(read(large))
    assert len(said) == 1


@pytest.mark.parametrize("name", ["small_two_stage", "large_two_stage", "full_transfer"])
def test_strategies_select_by_the_readers_attention(run, name):
    small, large = attentive()
    large.script["reason"] = REASONING
    reader, other = (small, large) if name == "small_two_stage" else (large, small)
    result = run(create_strategy(name, small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
    assert read(reader) == "Answer: no"
    assert selection_of(result)["kept_tokens"] == 2
    assert (len(reader.passes), len(other.passes)) == (1, 0)


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
    result = run(create_mai(small, large, prompts=PROMPTS, transfer="sparse"), QUESTION)
    assert result["calls"][-1]["error"] is None
    assert read(large).strip()
    assert result["fallback"] is None


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
    result = run(create_mai(small, large, prompts=PROMPTS, transfer=sparse), QUESTION)
    assert result["calls"][-1]["error"] is None
    assert read(large).strip()
    assert selection_of(result)["kept_tokens"] >= 1
