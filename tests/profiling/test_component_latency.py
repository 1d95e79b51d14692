import json
from dataclasses import replace

import pytest
import torch
from profiled_models import KnownModel, KnownSizes
from typer.testing import CliRunner

from langgraph_mai.models.errors import EngineEndedError, ModelError
from langgraph_mai.profiling.component_latency import ComponentLatency
from langgraph_mai.profiling.grid import Grid
from langgraph_mai.profiling.machine_rates import MachineRates, measure_rates
from langgraph_mai.profiling.profile_rows import ProfileFile, read_rows
from langgraph_mai.profiling.profile_run import open_model, profile_models
from langgraph_mai.profiling.target import Target
from langgraph_mai.tools.cli import app

RATES = MachineRates(flops=1e11, bandwidth=1e10)
GRID = Grid(image_sides=(64,), query_tokens=(16,), output_tokens=(2, 5), repeats=3)


@pytest.fixture
def model(checkpoint):
    with open_model(Target(str(checkpoint), dtype="float32", device="cpu"), GRID) as opened:
        yield opened


def measure(model, folder, rates=RATES, grid=GRID):
    target = Target(model.name)
    return list(ComponentLatency(model, ProfileFile(folder), rates, grid, target).measure())


def test_prompts_have_the_asked_length_and_outputs_are_never_cut_short(model):
    pictures = model.pictures(64, 2)
    ids = model.prompt(pictures, 20)["input_ids"]
    assert ids.shape == (2, pictures.image_tokens + 20)
    seconds = model.write(pictures, 20, 30)
    assert len(seconds) == 30
    assert seconds == sorted(seconds)


def test_each_component_is_measured_and_written_at_once(model, tmp_path):
    seen = []
    measuring = ComponentLatency(model, ProfileFile(tmp_path), RATES, GRID, Target(model.name))
    for row in measuring.measure():
        assert read_rows(tmp_path / "profile.csv")[-1].key == row.key
        seen.append(row)
    assert [row.component for row in seen] == ["preprocess", "vision", "ttft", "decode", "decode"]
    for row in seen:
        assert 0 < row.low_ms <= row.median_ms <= row.high_ms
        assert row.floor_ms > 0
        assert row.bound in {"compute", "memory"}
    short, long = seen[-2:]
    assert (short.output_tokens, long.output_tokens) == (2, 5)
    assert short.median_ms < long.median_ms
    assert long.floor_ms == pytest.approx(2.5 * short.floor_ms, rel=0.05)


def test_a_run_goes_on_where_the_last_one_ended(model, tmp_path):
    first = measure(model, tmp_path)
    lines = (tmp_path / "profile.csv").read_text().splitlines(keepends=True)
    (tmp_path / "profile.csv").write_text("".join(lines[:3]) + lines[3][:40])

    again = measure(model, tmp_path)
    assert [row.key for row in again] == [row.key for row in first]
    for before, after in zip(first[:2], again[:2], strict=True):
        assert after.median_ms == pytest.approx(before.median_ms, abs=1e-4)
    assert len(read_rows(tmp_path / "profile.csv")) == len(first)

    more = measure(model, tmp_path, grid=replace(GRID, output_tokens=(2, 5, 7)))
    assert [row.output_tokens for row in more[-3:]] == [2, 5, 7]
    assert more[-2].median_ms == pytest.approx(again[-1].median_ms, abs=1e-4)


def test_what_does_not_fit_is_skipped_and_named_and_the_rest_goes_on(model, tmp_path):
    grid = replace(GRID, query_tokens=(16, 5000), output_tokens=(2, 5000))
    rows = measure(model, tmp_path, grid=grid)
    skipped = {(row.component, row.query_tokens, row.output_tokens) for row in rows if row.skipped}
    assert skipped == {("decode", 16, 5000), ("ttft", 5000, 1)}
    assert all("context" in row.skipped for row in rows if row.skipped)


def test_what_takes_too_long_is_named_and_tried_again(model, tmp_path):
    rows = measure(model, tmp_path, MachineRates(flops=1.0, bandwidth=1.0))
    assert all("takes at least" in row.skipped for row in rows)
    written = read_rows(tmp_path / "profile.csv")
    assert [(row.key, row.skipped) for row in written] == [(row.key, row.skipped) for row in rows]

    again = measure(model, tmp_path)
    assert not any(row.skipped for row in again)
    assert [row.key for row in read_rows(tmp_path / "profile.csv")] == [row.key for row in again]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1.23e-5, "0.000012"),
        (0.037, "0.037"),
        (0.5, "0.50"),
        (1.7, "1.7"),
        (60, "60"),
        (972, "972"),
    ],
)
def test_how_long_something_takes_is_said_with_two_digits(tmp_path, seconds, said):
    rates = MachineRates(flops=1e30, bandwidth=KnownSizes().vision_bytes / seconds)
    grid = replace(GRID, longest=seconds / 2, output_tokens=())
    rows = measure(KnownModel(), tmp_path, rates, grid)
    (skipped,) = [row.skipped for row in rows if row.component == "vision"]
    assert skipped == f"takes at least {said} s here"


FAILURES = {
    "GPU memory": (torch.OutOfMemoryError("CUDA out of memory"), "ran out of memory"),
    "main memory": (MemoryError(), "ran out of memory"),
    "engine": (EngineEndedError("The engine has ended."), "The engine has ended."),
    "start": (ModelError("There is not enough memory: free some."),) * 2,
}


def failing(method, error, fails=lambda *given: True):
    """A method of a model that fails where it is told to."""

    def run(*given):
        if fails(*given):
            raise error
        return method(*given)

    return run


@pytest.mark.parametrize(("error", "said"), FAILURES.values(), ids=list(FAILURES))
@pytest.mark.parametrize(
    ("component", "method", "fails"),
    [
        ("preprocess", "preprocess", lambda *given: True),
        ("vision", "encode", lambda *given: True),
        ("ttft", "write", lambda pictures, query, tokens: tokens == 1),
        ("decode", "write", lambda pictures, query, tokens: tokens > 1),
    ],
)
def test_a_failure_costs_one_component(
    model, tmp_path, monkeypatch, component, method, fails, error, said
):
    monkeypatch.setattr(model, method, failing(getattr(model, method), error, fails))
    rows = measure(model, tmp_path, grid=replace(GRID, output_tokens=(2,)))
    assert {row.component: row.skipped for row in rows if row.skipped} == {component: str(said)}
    assert [row.component for row in rows] == ["preprocess", "vision", "ttft", "decode"]
    written = read_rows(tmp_path / "profile.csv")
    assert [(row.key, row.skipped) for row in written] == [(row.key, row.skipped) for row in rows]


@pytest.mark.parametrize(("error", "said"), FAILURES.values(), ids=list(FAILURES))
@pytest.mark.parametrize("most", [0, 2])
def test_an_output_that_fails_costs_no_shorter_one(model, tmp_path, monkeypatch, error, said, most):
    too_long = failing(model.write, error, lambda pictures, query, tokens: tokens > most + 1)
    monkeypatch.setattr(model, "write", too_long)
    rows = measure(model, tmp_path, grid=replace(GRID, output_tokens=(2, 5, 9)))
    decoded = {row.output_tokens: row for row in rows if row.component == "decode"}
    for length, row in decoded.items():
        assert (row.median_ms is None, row.skipped) == (length > most, str(said) * (length > most))


def test_an_error_that_is_none_of_memory_is_raised(model, tmp_path, monkeypatch):
    for method in ("preprocess", "encode", "write"):
        with monkeypatch.context() as patched:
            patched.setattr(model, method, failing(None, RuntimeError("a fault of the program")))
            with pytest.raises(RuntimeError, match="a fault of the program"):
                measure(model, tmp_path / method)


def test_a_model_that_cannot_be_had_is_named_and_the_others_go_on(qwen_checkpoint, tmp_path):
    file = ProfileFile(tmp_path)
    there = Target(str(qwen_checkpoint), dtype="float32", device="cpu")
    missing = Target(str(tmp_path / "missing"), device="cpu")
    seen = []
    profile_models([missing, there], GRID, file, lambda target, row: seen.append(row.model))
    assert seen[0] == missing.name
    (whole,) = [row for row in file.rows if row.model == missing.name]
    assert whole.component == "weights"
    assert "There is no model folder" in whole.skipped
    assert {row.component for row in file.rows if row.median_ms} == {
        "preprocess",
        "vision",
        "ttft",
        "decode",
    }
    with pytest.raises(ModelError, match="There is no model folder"):
        profile_models([missing], GRID, ProfileFile(tmp_path / "b"), lambda target, row: None)


def test_the_machine_is_measured():
    rates = measure_rates(torch.device("cpu"), torch.float32)
    assert rates.flops > 1e6
    assert rates.bandwidth > 1e6
    assert rates.floor_seconds(rates.flops, 0) == (pytest.approx(1), "compute")
    assert rates.floor_seconds(0, 2 * rates.bandwidth) == (pytest.approx(2), "memory")


def test_a_profile_is_written_and_feeds_the_simulator(tmp_path):
    run = CliRunner()
    words = ["--image-side", "128", "--query-tokens", "16", "--query-tokens", "32"]
    words += ["--output-tokens", "4", "--repeats", "1", "--out", str(tmp_path)]
    assert run.invoke(app, ["profile", *words]).exit_code == 0
    records = json.loads((tmp_path / "profile.json").read_text())
    assert {record["name"].split(".")[0] for record in records} == {
        "machine",
        "demo:small",
        "demo:large",
    }
    measured = [record for record in records if record["unit"] == "ms"]
    assert all(record["low"] <= record["value"] <= record["high"] for record in measured)
    assert "## Decoding" in (tmp_path / "profile.md").read_text()
    for picture in ("decode.png", "components.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")

    made = run.invoke(app, ["simulate", "--profile", str(tmp_path), "--questions", "20", "--json"])
    assert made.exit_code == 0
    totals = {record["name"]: record["value"] for record in json.loads(made.stdout)}
    assert totals["POPE.mai.total"] > 0
    assert not any(name.startswith("table11") for name in totals)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--random-weights"], "needs --model"),
        (["--random-weights", "--model", "GPT"], "'GPT' are not known"),
        (["--backend", "llamacpp"], "takes transformers or vllm"),
        (["--pair", "demo-server"], "runs on a server"),
        (["--engine", "enforce_eager"], "takes NAME=VALUE"),
        (["--engine", "enforce_eager=true"], "add --backend vllm"),
        (["--pair", "nobody"], "There is no pair 'nobody'"),
        (["--query-tokens", "1"], "query tokens must be larger"),
        (["--repeats", "0"], "at least 1"),
        *((["--longest", seconds], "--longest must be") for seconds in ("nan", "-1", "0", "inf")),
    ],
)
def test_bad_usage_is_said_in_one_sentence(words, said):
    shown = CliRunner().invoke(app, ["profile", *words])
    assert shown.exit_code == 2
    assert said in shown.stderr


def test_pictures_that_do_not_fit_in_memory_are_not_made(tmp_path):
    words = ["--model", "demo:small", "--batch", "1000000000", "--image-side", "256"]
    words += ["--query-tokens", "64", "--output-tokens", "8", "--repeats", "1"]
    done = CliRunner().invoke(app, ["profile", *words, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = read_rows(tmp_path / "profile.csv")
    assert [row.component for row in rows] == ["preprocess", "vision", "ttft", "decode"]
    assert all(row.skipped.startswith(("needs 1769472.0 GB", "takes at least")) for row in rows)
