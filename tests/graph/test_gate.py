"""The gate in the graph: one call where the small model is sure, none skipped where it is off."""

import json
import math
from typing import ClassVar

import pytest

from langgraph_mai import CallCache, ConfigError, Gate, MAIContext, create_mai
from langgraph_mai.answers import agree
from langgraph_mai.nodes.confidence import Calibration
from langgraph_mai.nodes.gate import describe_cascade

from ..fakes import PROMPTS, ScriptedModel, models

QUESTION = {"question": "Is it red?", "answer_type": "yes_no"}


class SureModel(ScriptedModel):
    """Gives its first token a probability, and the other answer the rest.

    Attributes:
        sure: The probability.
    """

    supports_logprobs: ClassVar[bool] = True
    sure: float = 0.95

    def _result(self, text, finish, drafted=None):
        result = super()._result(text, finish, drafted)
        other = {"token": "no" if text == "yes" else "yes", "logprob": math.log(1 - self.sure)}
        own = {"token": text, "logprob": math.log(self.sure)}
        content = [{**own, "top_logprobs": [own, other]}]
        result.generations[0].message.response_metadata["logprobs"] = {"content": content}
        return result


def pair(route="direct", sure=0.95):
    return models(route, SureModel, sure=sure)


def calibration(small, large, **changed):
    cascade = describe_cascade(small, large, PROMPTS, "full", agree)
    rates = [
        {"probability": at, "rate": at - 0.05, "interval": (0, 1), "questions": 30}
        for at in (0.2, 0.9)
    ]
    values = {
        "benchmark": "own",
        "cascade": json.loads(json.dumps(cascade)),
        "risk": 0.02,
        "delta": 0.05,
        "questions": 500,
        "losses_allowed": 4,
        "losses": 3,
        "threshold": 0.9,
        "figures": {},
        "confidence": {"confident": rates, "direct": rates},
    }
    return Calibration(**(values | changed))


def ask(small, large, gate, context=None, **options):
    mai = create_mai(small, large, prompts=PROMPTS, gate=gate, require_images=False, **options)
    return mai.invoke(QUESTION, context=context)


@pytest.mark.parametrize(
    ("sure", "coin", "route", "calls", "confidence"),
    [
        (0.95, 0, "confident", ["small"], 0.85),
        (0.9, 0, "confident", ["small"], 0.85),
        (0.89, 0, "direct", ["small", "large"], 0.15),
        (0.95, 1, "direct", ["small", "large"], 0.85),
    ],
)
def test_a_sure_answer_stands_alone_unless_it_is_audited(sure, coin, route, calls, confidence):
    small, large = pair(sure=sure)
    found = ask(small, large, Gate(calibration(small, large), audit_share=coin))
    assert found["route"] == route
    assert [call["role"] for call in found["calls"]] == calls
    assert [len(small.calls), len(large.calls)] == [1, len(calls) - 1]
    assert found["calls"][0]["probability"] == pytest.approx(sure)
    assert found["confidence"] == pytest.approx(confidence)
    assert found["gate"] == {"confident": sure >= 0.9, "audited": coin == 1, "off": None}


def edges(mai):
    return {(edge.source, edge.target) for edge in mai.get_graph().edges}


def test_the_drawing_shows_the_gate_only_where_there_is_one():
    small, large = pair()
    plain = create_mai(small, large, prompts=PROMPTS)
    never = create_mai(small, large, gate=Gate(calibration(small, large, threshold=None)))
    gated = create_mai(small, large, gate=Gate(calibration(small, large)))
    assert edges(plain) == edges(never)
    assert ("small_agent", "respond") in edges(gated) - edges(plain)


def test_without_a_threshold_only_the_confidence_is_given():
    small, large = pair()
    found = ask(small, large, Gate(calibration(small, large, threshold=None)))
    assert (found["route"], found["confidence"]) == ("direct", pytest.approx(0.85))


def other_prompts():
    return PROMPTS.model_copy(update={"system": "Another."})


@pytest.mark.parametrize(
    ("small", "options", "named"),
    [
        ({"label": "another revision"}, {}, "small"),
        ({}, {"prompts": other_prompts()}, "prompts"),
        ({}, {"verifier": lambda a, b: "agree"}, "verifier"),
        ({}, {"transfer": str.upper}, "transfer"),
    ],
)
def test_another_cascade_turns_it_off_with_one_warning(small, options, named):
    gate = Gate(calibration(*pair()), audit_share=0)
    own, large = pair()
    own = own.model_copy(update=small)
    options = {"prompts": PROMPTS, "gate": gate, "require_images": False} | options
    mai = create_mai(own, large, **options)
    with pytest.warns(UserWarning, match=rf"settings \({named}\)") as warned:
        found = [mai.invoke(QUESTION) for _ in range(2)]
    assert len(warned) == 1
    for one in found:
        assert (one["route"], one["confidence"]) == ("direct", None)
        assert named in one["gate"]["off"]


def test_a_calibration_that_none_can_be_is_refused(tmp_path):
    path = tmp_path / "calibration.json"
    own = calibration(*pair()).model_dump()
    for wrong in (
        {"risk": 0},
        {"threshold": math.nan},
        {"threshold": -1},
        {"delta": 2},
        {"risk": 1},
    ):
        path.write_text(json.dumps(own | wrong))
        with pytest.raises(ConfigError, match="is no calibration"):
            Gate(path)


def test_another_backend_and_settings_of_one_run_turn_it_off():
    small, large = pair()
    gate = Gate(calibration(*models("direct")), audit_share=0)  # models of another class
    with pytest.warns(UserWarning, match=r"settings \(small, large\)"):
        assert ask(small, large, gate)["route"] == "direct"
    own = Gate(calibration(small, large), audit_share=0)
    changed = ask(small, large, own, MAIContext(max_tokens_direct=9))
    assert (changed["route"], changed["confidence"]) == ("direct", None)
    assert "max_tokens_direct" in changed["gate"]["off"]
    assert ask(small, large, own, MAIContext(timeout=9))["route"] == "confident"


def test_a_model_without_log_probabilities_is_never_sure():
    small, large = models("direct")
    found = ask(small, large, Gate(calibration(small, large), audit_share=0))
    assert [call["probability"] for call in found["calls"]] == [None, None]
    assert (found["route"], found["confidence"]) == ("direct", None)


def test_a_small_model_that_fails_is_not_sure():
    small, large = pair()
    gate = Gate(calibration(small, large), audit_share=1)
    small.script["direct"] = ValueError("broken")
    found = ask(small, large, gate)
    assert (found["route"], found["answer"], len(found["calls"])) == ("direct", "yes", 2)


def test_losses_turn_it_off_for_everyone_who_shares_the_file(tmp_path):
    small, large = pair("transferred")  # the large model says yes, the small one no
    given, path = calibration(small, large), tmp_path / "audit.json"
    gate = Gate(given, audit=path, audit_share=1)
    mai = create_mai(small, large, prompts=PROMPTS, gate=gate, require_images=False)
    events = []
    for _ in range(9):
        for mode, event in mai.stream(QUESTION, stream_mode=["custom", "values"]):
            if mode == "values":
                found = event
            elif event["event"] == "gate":
                events.append(event)
        if found["gate"]["off"]:
            break
    assert "show more than its risk of 0.02" in found["gate"]["off"]
    assert events[-1]["off"] == found["gate"]["off"]
    assert events[-2]["off"] is None
    state = json.loads(path.read_text())
    assert (state["losses"], state["failed"]) == (state["questions"], True)
    again = ask(small, large, Gate(given, audit=path, audit_share=0))
    assert (again["route"], again["gate"]["off"]) == ("transferred", found["gate"]["off"])
    wrong = [{"calibration": 5}, *(state | one for one in ({"bets": math.nan}, {"questions": -1}))]
    for damaged in ["{}", "5", "\0", "[" * 9999, *map(json.dumps, wrong)]:
        path.write_text(damaged)
        assert "cannot be read" in ask(small, large, Gate(given, audit=path))["gate"]["off"]


def test_a_question_that_is_not_sure_counts_as_kept(tmp_path):
    small, large = pair("transferred", sure=0.5)
    gate = Gate(calibration(small, large), audit=tmp_path / "audit.json", audit_share=1)
    assert ask(small, large, gate)["route"] == "transferred"
    state = json.loads((tmp_path / "audit.json").read_text())
    assert (state["questions"], state["losses"]) == (1, 0)


def test_a_cached_call_has_its_probability(tmp_path):
    small, large = pair()
    gate = Gate(calibration(small, large), audit_share=0)
    cache = CallCache(tmp_path / "calls.sqlite")
    first, second = (ask(small, large, gate, cache=cache) for _ in range(2))
    assert second["calls"][0]["cached"]
    assert [one["calls"][0]["probability"] for one in (first, second)] == [pytest.approx(0.95)] * 2
    assert second["route"] == "confident"
