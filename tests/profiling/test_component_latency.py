import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForImageTextToText
from typer.testing import CliRunner

from langgraph_mai.configs import ConfigError
from langgraph_mai.configs.dimensions import list_dimensions, load_dimensions
from langgraph_mai.models.errors import ModelError
from langgraph_mai.profiling.component_latency import ComponentLatency, Grid
from langgraph_mai.profiling.machine_rates import MachineRates, measure_rates
from langgraph_mai.profiling.profile_rows import ProfileFile, read_rows
from langgraph_mai.profiling.profiled_model import ProfiledModel, open_model
from langgraph_mai.profiling.random_weights import (
    image_processor,
    model_config,
    parameter_bytes,
    random_model,
)
from langgraph_mai.tools.cli import app

RATES = MachineRates(flops=1e11, bandwidth=1e10)
GRID = Grid(image_sides=(64,), query_tokens=(16,), output_tokens=(2, 5), repeats=3)


@pytest.fixture
def model(checkpoint):
    return open_model(
        str(checkpoint), random_weights=False, dtype="float32", device="cpu", attention="sdpa"
    )


def small(name):
    """A model of the same architecture as a published one, small enough to be built in a test."""
    known = load_dimensions(name)
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4}
    vision = {"hidden_size": 32, "intermediate_size": 64}
    if known.family == "qwen3_vl":
        vision |= {"depth": 3, "num_heads": 2, "deepstack_visual_indexes": [0, 1, 2]}
    else:
        vision |= {"num_hidden_layers": 3, "num_attention_heads": 2}
    return known.model_copy(
        update={"text": known.text | text, "vision": known.vision | vision},
    )


@pytest.mark.parametrize("name", list_dimensions())
def test_dimensions_give_the_published_number_of_parameters(name):
    known = load_dimensions(name)
    assert parameter_bytes(known, torch.bfloat16) / 2e9 == pytest.approx(known.parameters, rel=0.04)


def test_hub_names_find_dimensions_and_unknown_ones_are_refused():
    assert load_dimensions("Qwen/Qwen3-VL-2B-Instruct") == load_dimensions("Qwen3-VL-2B")
    assert load_dimensions("OpenGVLab/InternVL3_5-8B-HF") == load_dimensions("InternVL3.5-8B")
    with pytest.raises(ConfigError, match="Qwen3-VL-2B, "):
        load_dimensions("Qwen3-VL-3B")


@pytest.mark.parametrize("name", ["Qwen3-VL-2B", "InternVL3.5-1B"])
def test_random_weights_are_filled_whole_and_run(name):
    dimensions = small(name)
    built = random_model(dimensions, torch.float32, torch.device("cpu"), "sdpa")
    for weight in built.parameters():
        assert torch.isfinite(weight).all()
        assert weight.detach().std().item() == pytest.approx(0.02, rel=0.5)
    profiled = ProfiledModel(name, built, image_processor(dimensions))
    pixels = profiled.pixels(256, 1)
    # Qwen: 32 pixels a side make a token; InternVL: 256 tokens a tile.
    assert profiled.image_tokens(pixels, 1) == {"Qwen3-VL-2B": 64, "InternVL3.5-1B": 256}[name]
    assert len(profiled.write(profiled.prompt(pixels, 8, 1), 3)) == 3


def test_the_architecture_is_that_of_transformers():
    with torch.device("meta"):
        built = AutoModelForImageTextToText.from_config(model_config(small("Qwen3-VL-2B")))
    assert type(built).__name__ == "Qwen3VLForConditionalGeneration"


def test_prompts_have_the_asked_length_and_outputs_are_never_cut_short(model):
    pixels = model.pixels(64, 2)
    prompt = model.prompt(pixels, 20, 2)
    assert prompt["input_ids"].shape == (2, model.image_tokens(pixels, 2) + 20)
    seconds = model.write(prompt, 30)
    assert len(seconds) == 30
    assert seconds == sorted(seconds)


def test_a_decode_step_is_counted_as_torch_counts_it(model):
    pixels = model.pixels(64, 1)
    prompt = model.prompt(pixels, 20, 1)
    step = model.flops(lambda: model.write(prompt, 3)) - model.flops(lambda: model.write(prompt, 2))
    context = prompt["input_ids"].shape[1] + 2
    assert model.step_flops(context, 1) == pytest.approx(step, rel=0.01)


def test_each_component_is_measured_and_written_at_once(model, tmp_path):
    file = ProfileFile(tmp_path)
    seen = []
    for row in ComponentLatency(model, file, RATES, GRID, "real").measure():
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
    first = list(ComponentLatency(model, ProfileFile(tmp_path), RATES, GRID, "real").measure())
    lines = (tmp_path / "profile.csv").read_text().splitlines(keepends=True)
    (tmp_path / "profile.csv").write_text("".join(lines[:3]) + lines[3][:40])

    again = list(ComponentLatency(model, ProfileFile(tmp_path), RATES, GRID, "real").measure())
    assert [row.key for row in again] == [row.key for row in first]
    for before, after in zip(first[:2], again[:2], strict=True):
        assert after.median_ms == pytest.approx(before.median_ms, abs=1e-4)
    assert len(read_rows(tmp_path / "profile.csv")) == len(first)

    wider = replace(GRID, output_tokens=(2, 5, 7))
    more = list(ComponentLatency(model, ProfileFile(tmp_path), RATES, wider, "real").measure())
    assert [row.output_tokens for row in more[-3:]] == [2, 5, 7]
    assert more[-2].median_ms == pytest.approx(again[-1].median_ms, abs=1e-4)


def test_what_does_not_fit_is_skipped_and_named_and_the_rest_goes_on(model, tmp_path):
    grid = replace(GRID, query_tokens=(16, 5000), output_tokens=(2, 5000))
    rows = list(ComponentLatency(model, ProfileFile(tmp_path), RATES, grid, "real").measure())
    skipped = {(row.component, row.query_tokens, row.output_tokens) for row in rows if row.skipped}
    assert skipped == {("decode", 16, 5000), ("ttft", 5000, 1)}
    assert all("context" in row.skipped for row in rows if row.skipped)

    slow = MachineRates(flops=1.0, bandwidth=1.0)
    rows = list(ComponentLatency(model, ProfileFile(tmp_path / "b"), slow, GRID, "real").measure())
    assert all("takes at least" in row.skipped for row in rows)
    assert ProfileFile(tmp_path / "b").rows == []  # to be tried again


def test_running_out_of_memory_costs_one_row(model, tmp_path, monkeypatch):
    def fail(_pixels):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(model, "encode", fail)
    rows = list(ComponentLatency(model, ProfileFile(tmp_path), RATES, GRID, "real").measure())
    assert {row.component: row.skipped for row in rows if row.skipped} == {
        "vision": "ran out of memory"
    }


def test_the_machine_is_measured():
    rates = measure_rates(torch.device("cpu"), torch.float32)
    assert rates.flops > 1e6
    assert rates.bandwidth > 1e6
    assert rates.floor_seconds(rates.flops, 0) == (pytest.approx(1), "compute")
    assert rates.floor_seconds(0, 2 * rates.bandwidth) == (pytest.approx(2), "memory")


def test_a_dtype_or_device_that_is_unknown_is_refused():
    with pytest.raises(ModelError, match="dtype 'half8'"):
        open_model(
            "Qwen3-VL-2B", random_weights=True, dtype="half8", device="cpu", attention="sdpa"
        )
    with pytest.raises(ModelError, match="device 'tpu9000'"):
        open_model(
            "Qwen3-VL-2B", random_weights=True, dtype="auto", device="tpu9000", attention="sdpa"
        )


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
        (["--query-tokens", "1"], "query tokens must be larger"),
        (["--repeats", "0"], "at least 1"),
    ],
)
def test_bad_usage_is_said_in_one_sentence(words, said):
    shown = CliRunner().invoke(app, ["profile", *words])
    assert shown.exit_code == 2
    assert said in shown.stderr
