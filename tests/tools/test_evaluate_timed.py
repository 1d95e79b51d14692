"""`mai evaluate --timed`."""

import json

from evaluations import FAST, evaluated, mai, stored_calls

from langgraph_mai.benchmarks.evaluation.store import EvaluationStore
from langgraph_mai.benchmarks.report.decoding import METHODS


def test_timed_runs_make_every_call_and_store_none(tmp_path):
    done = evaluated(tmp_path, "--limit", "4", "--timed", *FAST)
    assert stored_calls(tmp_path) == 0
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing == done["timing"]
    found = {(one["strategy"], one["name"]): one for one in timing}
    assert found["large_direct", "calls"]["value"] == 4
    assert found["mai", "calls.small.direct"]["value"] == 4
    for kind in ("input_tokens", "output_tokens", "cached_tokens"):
        parts = [
            one["value"]
            for (strategy, name), one in found.items()
            if strategy == "mai" and name.startswith(f"{kind}.")
        ]
        assert found["mai", kind]["value"] == sum(parts)
    ratio = found["large_direct", "ratio.mai"]
    assert ratio["value"] > 0
    assert ratio["low"] <= ratio["value"] <= ratio["high"]
    median = found["mai", "seconds_per_question.median"]["value"]
    assert median <= found["mai", "seconds_per_question.p95"]["value"]
    lines = (tmp_path / "timed.jsonl").read_text().splitlines()
    assert len(lines) == 8
    load = json.loads((tmp_path / "timed-run.json").read_text())["machine_load"]
    assert load["before"]["cores"] == load["after"]["cores"] >= 1
    assert "accept_rate" not in {name for _, name in found}


def test_nothing_else_runs_in_a_folder_while_it_is_timed(tmp_path):
    with EvaluationStore(tmp_path):
        for more in ((), ("--timed",)):
            done = mai("evaluate", "shapes", "--limit", "1", "--out", str(tmp_path), *more)
            assert done.exit_code == 2
            assert "Another evaluation is running in" in done.stderr


def test_table_12_comes_of_an_evaluation_and_its_timed_run(tmp_path):
    three = [word for name in METHODS for word in ("--strategy", name)]
    evaluated(tmp_path, "--limit", "3", *three)
    timing = evaluated(tmp_path, "--limit", "3", "--timed", *three)["timing"]
    (rate,) = (one for one in timing if one["name"] == "accept_rate")
    assert rate["strategy"] == "speculative"
    # Without an interval where all questions are alike.
    low, high = (rate.get(end, rate["value"]) for end in ("low", "high"))
    assert 0 < low <= rate["value"] <= high <= 1
    shown = mai("evaluate", "shapes", "--out", str(tmp_path), "--limit", "3", "--timed", *three)
    assert f"{rate['value']:.1%}" in shown.stdout
    done = mai("report", str(tmp_path), "--out", str(tmp_path / "report"))
    assert "(Table 12)" in done.stdout
    records = json.loads((tmp_path / "report" / "report.json").read_text())
    table = [one for one in records if one["table"] == "decoding"]
    assert table
