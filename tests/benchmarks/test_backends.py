"""The comparison of backends runs as its user runs it."""

import json
from importlib.util import find_spec

import pytest

from langgraph_mai.benchmarks import backends

PAIRS = [
    "demo",
    pytest.param(
        "demo-vllm",
        marks=[
            pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
            pytest.mark.shares_vllm,
        ],
    ),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_it_measures_and_writes_its_figures(pair, request, tmp_path, capsys):
    if pair == "demo-vllm":
        request.getfixturevalue("vllm_pair")  # whose engines are those of this pair's name
    backends.main(["--pair", pair, "--questions", "33", "--rounds", "1", "--out", str(tmp_path)])
    figures = {one["name"]: one for one in json.loads((tmp_path / "backends.json").read_text())}
    assert figures["identical"]["value"] >= 0.99
    assert figures["same_route"]["value"] >= 0.96
    assert figures["lost"]["value"] == 0
    assert figures["speedup_at_once"]["value"] > 0
    if pair == "demo-vllm":
        assert figures["prefix_reused.small.reason"]["value"] >= 0.95
    printed = capsys.readouterr().out
    assert all(name in printed for name in figures)
