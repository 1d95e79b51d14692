"""The evaluation of a pair: it resumes, and mixes nothing from another set."""

import json

import pytest

from langgraph_mai.demo.evaluation import claim, evaluate, markdown, prove
from langgraph_mai.demo.figures import CALLS, accuracies, targets
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.demo.questions import KINDS


def test_recorded_calls_say_what_the_graph_says_and_are_made_once(demo_weights, tmp_path):
    small, large = demo_weights / "small", demo_weights / "large"
    items = held_out(tmp_path / "pictures", count=2 * len(KINDS), seed=8)
    answered = evaluate(small, large, items, tmp_path / "calls")
    prove(small, large, answered)
    again = evaluate(tmp_path / "gone", tmp_path / "gone", items, tmp_path / "calls")
    assert [one.calls for one in again] == json.loads(json.dumps([one.calls for one in answered]))
    table = markdown(answered, targets(answered), accuracies(answered))
    assert all(word in table for word in (*CALLS, *KINDS, "mai", "at most 35"))


def test_a_folder_belongs_to_one_pair_one_count_and_one_seed(demo_weights, tmp_path):
    small, large = demo_weights / "small", demo_weights / "large"
    claim(tmp_path, small, large, 22, 8)
    claim(tmp_path, small, large, 22, 8)
    for other in ((large, large, 22, 8), (small, large, 33, 8), (small, large, 22, 9)):
        with pytest.raises(SystemExit, match="name a new folder"):
            claim(tmp_path, *other)
