"""A sample of the recorded results: the same texts, tokens, answers, routes and fallbacks."""

import json

from golden import compare


def test_results_of_all_strategies_equal_the_recorded_ones():
    assert list(compare.differences(compare.recorded(compare.HERE, 30), compare.results(30))) == []


def test_prompt_bytes_equal_the_recorded_ones():
    recorded = json.loads((compare.HERE / "prompts.json").read_text(encoding="utf-8"))
    assert list(compare.differences(recorded, compare.prompts())) == []


def test_names_schemas_drawing_and_json_keys_equal_the_recorded_ones():
    recorded = json.loads((compare.HERE / "face.json").read_text(encoding="utf-8"))
    assert list(compare.differences(recorded, compare.face())) == []
