"""`mai calibrate`: a file that gates, a refusal with the number needed, confidence alone."""

import json

import pytest
from evaluations import evaluated, mai

from langgraph_mai import Gate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibration")


def calibrate(folder, *options):
    out = folder / "calibration.json"
    words = ("shapes", "--limit", "60", "--results", str(folder / "calls"), "--out", str(out))
    return mai("calibrate", *words, *options), out


def test_a_calibration_gates_the_same_pair(folder):
    done, out = calibrate(folder, "--risk", "0.05", "--json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert shown["losses_allowed"] == 0 == shown["losses"]
    assert 0.5 < shown["threshold"] <= 1
    names = {"skipped", "loss", "loss_among_skipped", "seconds_saved", "tokens_saved"}
    assert names | {"auroc", "expected_calibration_error", "agreed_error"} == set(shown["figures"])
    gated = ("--limit", "60", "--strategy", "mai", "--strategy", "mai_gated", "--gate", str(out))
    assert evaluated(folder / "calls", *gated)["failures"] == []
    routes = {
        line["route"]
        for line in map(json.loads, (folder / "calls" / "results.jsonl").read_text().splitlines())
        if line["strategy"] == "mai_gated"
    }
    assert "confident" in routes
    assert "behind its gate" in mai("report", str(folder / "calls"), "--no-plots").output


def test_too_few_questions_are_refused_with_the_number_needed(folder):
    done, _ = calibrate(folder, "--risk", "0.01")
    assert (done.exit_code, "299 are needed" in done.output) == (1, True)


def test_without_a_risk_there_is_confidence_and_no_gate(folder):
    done, out = calibrate(folder, "--risk", "0")
    assert (done.exit_code, "confidence alone" in done.output) == (0, True)
    found = Gate(out).calibration
    assert found.threshold is None
    assert found.confidence


def test_a_gated_strategy_needs_a_calibration(tmp_path):
    words = ("--out", str(tmp_path), "--limit", "1", "--strategy", "mai_gated")
    done = mai("evaluate", "shapes", *words)
    assert (done.exit_code, "--gate" in done.output) == (2, True)
