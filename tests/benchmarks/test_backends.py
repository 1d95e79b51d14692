"""The comparison of backends: where outputs part, how much of a prefix is reused, all figures."""

import json
from importlib.util import find_spec

import pytest
from langchain_core.messages import AIMessage

from langgraph_mai.benchmarks import backends
from langgraph_mai.benchmarks.backends import Reuse, first_difference, reused_share

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
    count = "6"
    if pair == "demo-vllm":
        request.getfixturevalue("vllm_pair")  # whose engines are those of this pair's name
        count = "33"
    backends.main(["--pair", pair, "--questions", count, "--rounds", "1", "--out", str(tmp_path)])
    figures = {one["name"]: one for one in json.loads((tmp_path / "backends.json").read_text())}
    assert figures["identical"]["value"] >= 0.99
    assert figures["same_route"]["value"] >= 0.96
    assert figures["lost"]["value"] == 0
    assert figures["speedup_at_once"]["value"] > 0
    if pair == "demo-vllm":
        assert figures["prefix_reused.small.reason"]["value"] >= 0.95
    printed = capsys.readouterr().out
    assert all(name in printed for name in figures)


def written(*tokens, end=None):
    """A message with log probabilities; each token's rivals are 1 behind."""
    entries = [
        {
            "token": token,
            "logprob": -0.1,
            "top_logprobs": [{"token": token, "logprob": -0.1}, {"token": "?", "logprob": -1.1}],
        }
        for token in [*tokens, *([end] if end else [])]
    ]
    return AIMessage("".join(tokens), response_metadata={"logprobs": {"content": entries}})


def test_first_difference_of_two_outputs():
    assert first_difference(written("a", "b"), written("a", "b")) is None
    # An end token that only one side lists is no difference; equal texts of other tokens are one.
    assert first_difference(written("a", "b"), written("a", "b", end="<|im_end|>")) is None
    assert first_difference(written("ab"), written("a", "b")).token == 0
    for ours, theirs, token, reference, other, margin in [
        ("abc", "abd", 2, "c", "d", 1.0),
        ("abc", "ab", 2, "c", None, None),
        ("ab", "abc", 2, None, "c", 1.0),
        ("", "a", 0, None, "a", 1.0),
    ]:
        found = first_difference(written(*ours), written(*theirs))
        assert (found.token, found.reference, found.other) == (token, reference, other)
        assert found.margin == (None if margin is None else pytest.approx(margin))


def test_reused_share_counts_full_blocks_of_shared_prefixes():
    for reuses, share in [
        ([Reuse(shared=41, block=32, cached=32)], 1.0),
        ([Reuse(shared=100, block=32, cached=64)], 64 / 96),
        # What lies beyond the shared prefix does not make up for what lacks.
        ([Reuse(64, 32, cached=96), Reuse(64, 32, cached=0)], 0.5),
        ([], None),
        ([Reuse(shared=31, block=32, cached=0)], None),
    ]:
        assert reused_share(reuses) == (None if share is None else pytest.approx(share))
