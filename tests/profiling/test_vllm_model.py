"""`mai profile` on vLLM: one engine of random weights, measured as transformers measures it."""

import csv
import json
import os
from importlib.util import find_spec

import pytest
from checkpoints import small_dimensions
from typer.testing import CliRunner

from langgraph_mai.profiling.checkpoints import write_checkpoint
from langgraph_mai.profiling.profile_rows import read_rows
from langgraph_mai.tools.cli import app

# Settings that suit models this small on two CPU cores; vLLM reads them when it is imported.
QUICK = {"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
GRID = ["--image-side", "256", "--image-side", "900", "--batch", "1", "--batch", "2"]
GRID += ["--query-tokens", "16", "--output-tokens", "3", "--output-tokens", "9", "--repeats", "3"]
CONTEXT = 1200

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A checkpoint's folder without weights; InternVL, whose prompts vLLM adds tokens to."""
    dimensions = small_dimensions("InternVL3.5-1B")
    return str(write_checkpoint(dimensions, tmp_path_factory.mktemp("random") / "model"))


def profile(model, folder, *words):
    command = ["profile", "--random-weights", "--model", model, *GRID, *words, "--device", "cpu"]
    return CliRunner().invoke(app, [*command, "--out", str(folder)])


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """A profile on vLLM, made with one start of its engine."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICK.items():
            environment.setenv(name, os.environ.get(name, value))
        folder = tmp_path_factory.mktemp("profile")
        engine = ["enforce_eager=true", "block_size=32", f"max_model_len={CONTEXT}"]
        options = [word for option in engine for word in ("--engine", option)]
        done = profile(model, folder, "--backend", "vllm", *options)
        assert done.exit_code == 0, done.output
    return folder


def sizes(row):
    return row.key[-5:], row.image_tokens, row.input_tokens


@needs_vllm
def test_every_component_is_measured_and_what_does_not_fit_is_named(folder):
    rows = read_rows(folder / "profile.csv")
    measured = [row for row in rows if not row.skipped]
    for batch in (1, 2):
        found = [row.component for row in measured if (row.batch, row.image_side) == (batch, 256)]
        assert found == ["preprocess", "vision", "ttft", "decode", "decode"]
    for row in measured:
        assert (row.backend, row.weights, row.dtype) == ("vllm", "random", "bfloat16")
        assert 0 < row.low_ms <= row.median_ms <= row.high_ms
        assert row.repeats == 3  # a repetition that reuses anything is refused
        assert row.floor_ms > 0
        assert row.gflops > 0
    # Four tiles and the whole, 256 tokens each, are more than the context.
    skipped = {(row.component, row.batch, row.image_side) for row in rows if row.skipped}
    assert skipped == {
        (component, batch, 900) for component in ("vision", "ttft") for batch in (1, 2)
    }
    assert all(f"context of {CONTEXT}" in row.skipped for row in rows if row.skipped)


@needs_vllm
def test_outputs_have_their_length(folder):
    decoded = [row for row in read_rows(folder / "profile.csv") if row.component == "decode"]
    for short, long in zip(decoded[::2], decoded[1::2], strict=True):
        assert (short.output_tokens, long.output_tokens) == (3, 9)
        assert short.median_ms < long.median_ms


@needs_vllm
def test_the_rows_are_those_of_transformers_and_the_simulator_takes_either(model, folder, tmp_path):
    both = tmp_path / "both"
    both.mkdir()
    (both / "profile.csv").write_bytes((folder / "profile.csv").read_bytes())
    assert profile(model, both).exit_code == 0
    rows = read_rows(both / "profile.csv")
    ours, theirs = (
        [sizes(row) for row in rows if row.backend == backend and row.image_side == 256]
        for backend in ("vllm", "transformers")
    )
    assert ours == theirs
    lines = (both / "profile.md").read_text().splitlines()
    shown = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {model} ")]
    for backend in ("vllm", "transformers"):
        assert any(cells[1] == backend and "256" in cells for cells in shown)
    names = [figure["name"] for figure in json.loads((both / "profile.json").read_text())]
    assert len(names) == len(set(names))

    pair = ["--profile", str(both), "--small", model, "--large", model]
    tokens = tmp_path / "tokens.csv"
    with tokens.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["role", "benchmark", "style", "mean_output_tokens"])
        for role, style, count in [("small", "S", 2), ("small", "R", 60), ("large", "S", 2)]:
            writer.writerow([role, "POPE", style, count])
    words = ["simulate", *pair, "--questions", "10", "--json", "--tokens", str(tokens)]
    routes = tmp_path / "routes.csv"
    routes.write_text(
        "benchmark,questions,verified_direct,verified_by_reasoning,reasoning_transfer\n"
        "POPE,100,80,10,10\n"
    )
    words += ["--routes", str(routes)]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "measured in several ways" in refused.stderr
    assert "--backend" in refused.stderr
    totals = []
    for backend in ("vllm", "transformers"):
        done = CliRunner().invoke(app, [*words, "--backend", backend])
        assert done.exit_code == 0, done.output
        figures = {figure["name"]: figure["value"] for figure in json.loads(done.stdout)}
        totals.append(figures["POPE.mai.total"])
    assert totals[0] != totals[1]


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_it_says_what_to_install(model, tmp_path):
    done = profile(model, tmp_path, "--backend", "vllm")
    assert done.exit_code == 1
    assert "vLLM is not installed; install it with: pip install" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
