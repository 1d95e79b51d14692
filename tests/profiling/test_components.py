"""Components are measured, floors are right, failures cost one cell, and runs resume."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from langgraph_mai.models.errors import EngineEndedError, ModelError
from langgraph_mai.profiling.components import (
    ComponentLatency,
    DoesNotFit,
    ImageBatch,
    open_model,
    profile_models,
)
from langgraph_mai.profiling.machine import MachineRates, measure_rates
from langgraph_mai.profiling.profile_report import records, tables
from langgraph_mai.profiling.profile_rows import SETTINGS, ProfileFile, read_rows
from langgraph_mai.profiling.targets import Grid, Target
from langgraph_mai.tools.cli import app

RATES = MachineRates(flops=1e11, bandwidth=1e10)
GRID = Grid(image_sides=(64,), query_tokens=(16,), output_tokens=(2, 5), repeats=3)
COMPONENTS = ["preprocess", "vision", "ttft", "decode", "decode"]
FAST = 1e30


@dataclass
class KnownSizes:
    """As `ModelSizes`; each figure is simple and no two are alike."""

    vision_bytes: int = 3_000
    text_bytes: int = 7_000

    def image_tokens(self, side: int) -> int:
        return side // 32

    def vision_flops(self, side: int, batch: int) -> float:
        return 11.0 * side * batch

    def prefill_flops(self, tokens: int, batch: int) -> float:
        return 13.0 * tokens * batch

    def step_flops(self, context: float, batch: int) -> float:
        return 17.0 * context * batch

    def cache_bytes(self, tokens: float) -> float:
        return 19.0 * tokens

    def vision_work_bytes(self, side: int, batch: int, *, square: bool) -> float:
        return 0.0


@dataclass
class KnownModel:
    """A model whose seconds are given, and whose runs are recorded."""

    name: str = "known"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    attention: str = "sdpa"
    sizes: Any = field(default_factory=KnownSizes)
    runs: list[str] = field(default_factory=list)

    def image_batch(self, side: int, batch: int) -> ImageBatch:
        return ImageBatch(side, [], self.sizes.image_tokens(side), 500, {})

    def preprocess(self, images: ImageBatch) -> float:
        self.runs.append("preprocess")
        return 0.002

    def encode(self, images: ImageBatch) -> float:
        self.runs.append("encode")
        return 0.003

    def generate(self, images: ImageBatch, query_tokens: int, tokens: int) -> list[float]:
        self.runs.append(f"generate {tokens}")
        return [0.02 + count * 0.005 for count in range(tokens)]

    def check_capacity(self, batch: int, tokens: int) -> None:
        if tokens > 10_000:
            raise DoesNotFit("longer than the context")


@pytest.fixture
def model(checkpoint):
    with open_model(Target(str(checkpoint), dtype="float32", device="cpu"), GRID) as opened:
        yield opened


def measure(model, folder, rates=RATES, grid=GRID, target=None):
    target = target or Target(model.name)
    return list(ComponentLatency(model, ProfileFile(folder), rates, grid, target).measure())


def test_prompts_have_the_wanted_length_and_outputs_are_never_cut_short(model):
    images = model.image_batch(64, 2)
    assert model.prompt(images, 20)["input_ids"].shape == (2, images.image_tokens + 20)
    seconds = model.generate(images, 20, 30)
    assert len(seconds) == 30
    assert seconds == sorted(seconds)


def test_each_component_is_measured_and_written_immediately(model, tmp_path):
    seen = []
    measuring = ComponentLatency(model, ProfileFile(tmp_path), RATES, GRID, Target(model.name))
    for row in measuring.measure():
        assert read_rows(tmp_path / "profile.csv")[-1].key == row.key
        seen.append(row)
    assert [row.component for row in seen] == COMPONENTS
    for row in seen:
        assert 0 < row.low_ms <= row.median_ms <= row.high_ms
        assert row.floor_ms > 0
        assert row.bound in {"compute", "memory"}
    short, long = seen[-2:]
    assert (short.output_tokens, long.output_tokens) == (2, 5)
    assert short.median_ms < long.median_ms
    assert long.floor_ms == pytest.approx(2.5 * short.floor_ms, rel=0.05)


def test_a_run_resumes_where_the_last_one_ended(tmp_path):
    first = measure(KnownModel(), tmp_path)
    lines = (tmp_path / "profile.csv").read_text().splitlines(keepends=True)
    (tmp_path / "profile.csv").write_text("".join(lines[:3]) + lines[3][:40])
    resumed = KnownModel()
    again = measure(resumed, tmp_path)
    assert [row.key for row in again] == [row.key for row in first]
    assert "preprocess" not in resumed.runs
    assert len(read_rows(tmp_path / "profile.csv")) == len(first)
    more = measure(KnownModel(), tmp_path, grid=replace(GRID, output_tokens=(2, 5, 7)))
    assert [row.output_tokens for row in more[-3:]] == [2, 5, 7]


def test_what_does_not_fit_is_skipped_and_named_and_the_rest_continues(model, tmp_path):
    grid = replace(GRID, query_tokens=(16, 5000), output_tokens=(2, 5000))
    rows = measure(model, tmp_path, grid=grid)
    skipped = {(row.component, row.query_tokens, row.output_tokens) for row in rows if row.skipped}
    assert skipped == {("decode", 16, 5000), ("ttft", 5000, 1)}
    assert all("context" in row.skipped for row in rows if row.skipped)


def test_what_takes_too_long_is_named_and_tried_again(tmp_path):
    rows = measure(KnownModel(), tmp_path, MachineRates(flops=1.0, bandwidth=1.0))
    assert all("takes at least" in row.skipped for row in rows)
    written = read_rows(tmp_path / "profile.csv")
    assert [(row.key, row.skipped) for row in written] == [(row.key, row.skipped) for row in rows]
    again = measure(KnownModel(), tmp_path)
    assert not any(row.skipped for row in again)
    assert [row.key for row in read_rows(tmp_path / "profile.csv")] == [row.key for row in again]


def test_a_time_is_named_with_two_digits(tmp_path):
    cases = [(1.23e-5, "0.000012"), (0.037, "0.037"), (0.5, "0.50"), (1.7, "1.7"), (972, "972")]
    for seconds, shown in cases:
        rates = MachineRates(flops=FAST, bandwidth=KnownSizes().vision_bytes / seconds)
        grid = replace(GRID, longest=seconds / 2, output_tokens=())
        rows = measure(KnownModel(), tmp_path / shown, rates, grid)
        (skipped,) = [row.skipped for row in rows if row.component == "vision"]
        assert skipped == f"takes at least {shown} s here"


FAILURES = {
    "GPU memory": (torch.OutOfMemoryError("CUDA out of memory"), "ran out of memory"),
    "main memory": (MemoryError(), "ran out of memory"),
    "engine": (EngineEndedError("The engine has ended."), "The engine has ended."),
    "start": (ModelError("There is not enough memory: free some."),) * 2,
}


def failing(method, error, fails=lambda *given: True):
    """A method of a model that fails for some arguments."""

    def run(*given):
        if fails(*given):
            raise error
        return method(*given)

    return run


@pytest.mark.parametrize(("error", "shown"), FAILURES.values(), ids=list(FAILURES))
def test_a_failure_costs_one_component_and_no_shorter_output(tmp_path, error, shown):
    for component, method, fails in (
        ("preprocess", "preprocess", lambda *given: True),
        ("vision", "encode", lambda *given: True),
        ("ttft", "generate", lambda images, query, tokens: tokens == 1),
        ("decode", "generate", lambda images, query, tokens: tokens > 1),
    ):
        model = KnownModel()
        setattr(model, method, failing(getattr(model, method), error, fails))
        folder = tmp_path / component
        rows = measure(model, folder, grid=replace(GRID, output_tokens=(2,)))
        skipped = {row.component: row.skipped for row in rows if row.skipped}
        assert skipped == {component: str(shown)}
        assert [row.component for row in rows] == COMPONENTS[:4]
        written = [(row.key, row.skipped) for row in read_rows(folder / "profile.csv")]
        assert written == [(row.key, row.skipped) for row in rows]
    for most in (0, 2):
        model = KnownModel()
        model.generate = failing(model.generate, error, lambda *given: given[2] > most + 1)  # noqa: B023
        rows = measure(model, tmp_path / str(most), grid=replace(GRID, output_tokens=(2, 5, 9)))
        for row in rows:
            if row.component == "decode":
                fails = row.output_tokens > most
                assert (row.median_ms is None, row.skipped) == (fails, str(shown) * fails)


def test_an_error_that_is_none_of_memory_is_raised(tmp_path):
    for method in ("preprocess", "encode", "generate"):
        model = KnownModel()
        setattr(model, method, failing(None, RuntimeError("an error of the program")))
        with pytest.raises(RuntimeError, match="an error of the program"):
            measure(model, tmp_path / method)


def test_a_model_that_does_not_load_is_named_and_the_others_continue(qwen_checkpoint, tmp_path):
    file = ProfileFile(tmp_path)
    there = Target(str(qwen_checkpoint), dtype="float32", device="cpu")
    missing = Target(str(tmp_path / "missing"), device="cpu")
    seen = []
    profile_models([missing, there], GRID, file, lambda target, row: seen.append(row.model))
    assert seen[0] == missing.name
    (whole,) = [row for row in file.rows if row.model == missing.name]
    assert whole.component == "weights"
    assert "There is no model folder" in whole.skipped
    assert {row.component for row in file.rows if row.median_ms} == set(COMPONENTS)
    with pytest.raises(ModelError, match="There is no model folder"):
        profile_models([missing], GRID, ProfileFile(tmp_path / "b"), lambda target, row: None)


def test_the_machine_is_measured():
    rates = measure_rates(torch.device("cpu"), torch.float32)
    assert rates.flops > 1e6
    assert rates.bandwidth > 1e6
    assert rates.floor_seconds(rates.flops, 0) == (pytest.approx(1), "compute")
    assert rates.floor_seconds(0, 2 * rates.bandwidth) == (pytest.approx(2), "memory")


# An image of 64 pixels takes 2 tokens, so a prompt has 20. Flops: 11 a pixel of the side, 13 a
# token of a prompt, 17 a token of a step's context. Bytes: 3 a pixel and 500 prepared, 3,000 of
# the vision encoder, 7,000 of the language model, 19 a token of the cache.
FLOORS = {
    ("preprocess", 1, 0): (0, 3 * 64 * 64 + 500),
    ("preprocess", 4, 0): (0, 3 * 64 * 64 * 4 + 500),
    ("vision", 1, 0): (11 * 64, 3_000),
    ("vision", 4, 0): (11 * 64 * 4, 3_000),
    ("ttft", 1, 1): (11 * 64 + 13 * 20, 10_000),
    ("ttft", 4, 1): ((11 * 64 + 13 * 20) * 4, 10_000),
    ("decode", 1, 2): (2 * 17 * 21, 2 * (7_000 + 19 * 21)),
    ("decode", 1, 6): (6 * 17 * 23, 6 * (7_000 + 19 * 23)),
    ("decode", 4, 2): (2 * 17 * 21 * 4, 2 * (7_000 + 19 * 21 * 4)),
    ("decode", 4, 6): (6 * 17 * 23 * 4, 6 * (7_000 + 19 * 23 * 4)),
}


def test_floors_and_figures_are_those_computed_by_hand(tmp_path):
    grid = replace(GRID, query_tokens=(18,), output_tokens=(2, 6), batches=(1, 4), warmup=2)
    medians = {"preprocess": 2.0, "vision": 3.0, "ttft": 20.0}
    for bound, rates in (
        ("compute", MachineRates(flops=1000.0, bandwidth=FAST)),
        ("memory", MachineRates(flops=FAST, bandwidth=1000.0)),
    ):
        model = KnownModel()
        rows = {
            (row.component, row.batch, row.output_tokens): row
            for row in measure(model, tmp_path / bound, rates, grid)
        }
        assert rows.keys() == FLOORS.keys()
        for cell, work in FLOORS.items():
            row = rows[cell]
            if bound == "memory" or work[0]:
                assert row.bound == bound
                assert row.floor_ms == pytest.approx(work[bound == "memory"])
            expected = medians.get(row.component, 5.0 * row.output_tokens)
            assert (row.median_ms, row.low_ms, row.high_ms) == (pytest.approx(expected),) * 3
            assert row.repeats == 3
        assert {row.gflops for row in rows.values()} == {rates.flops / 1e9}
        # For each batch: two runs that do not count, then three; outputs in three of the longest.
        assert model.runs.count("preprocess") == model.runs.count("encode") == 2 * 5
        assert model.runs.count("generate 1") == 2 * 5
        assert model.runs.count("generate 7") == 2 * 3


ON_VLLM = Target("known", backend="vllm")
OTHERS = {
    "backend": (Target("known"), {}),
    "weights": (replace(ON_VLLM, random_weights=True), {}),
    "revision": (replace(ON_VLLM, revision="v2"), {}),
    "engine": (replace(ON_VLLM, engine={"enforce_eager": True}), {}),
    "memory": (replace(ON_VLLM, memory=0.5), {"device": torch.device("cuda")}),
    "dtype": (ON_VLLM, {"dtype": torch.bfloat16}),
    "device": (ON_VLLM, {"device": torch.device("cuda")}),
    "attention": (ON_VLLM, {"attention": "eager"}),
}


@pytest.mark.parametrize("setting", OTHERS)
def test_another_setting_is_another_measurement(tmp_path, setting, monkeypatch):
    other, facts = OTHERS[setting]
    base = {"device": facts["device"]} if setting == "memory" else {}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40))
    first = measure(KnownModel(**base), tmp_path, target=ON_VLLM)
    known = KnownModel(**base)
    assert [row.key for row in measure(known, tmp_path, target=ON_VLLM)] == [
        row.key for row in first
    ]
    assert not known.runs
    anew = KnownModel(**facts)
    rows = measure(anew, tmp_path, target=other)
    assert anew.runs
    for old, new in zip(first, rows, strict=True):
        assert old.settings[setting] != new.settings[setting]
    written = read_rows(tmp_path / "profile.csv")
    assert [row.key for row in written] == [row.key for row in [*first, *rows]]
    assert_told_apart(written, setting)


def assert_told_apart(rows, setting):
    """Every table has a column of what differs, and no two figures have one name."""
    for table in tables(rows):
        assert len({row[list(table.header).index(setting)] for row in table.rows}) == 2
    names = [record.name for record in records(rows)]
    assert len(names) == len(set(names))
    # These two are in every name, and so are not named.
    assert not any(setting in name for name in names for setting in ("dtype=", "attention="))


def test_cpu_threads_are_a_setting_and_none_of_a_gpu(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        first = measure(KnownModel(), tmp_path)
        torch.set_num_threads(2)
        more = measure(KnownModel(), tmp_path)
    finally:
        torch.set_num_threads(before)
    assert ({row.threads for row in first}, {row.threads for row in more}) == ({1}, {2})
    assert_told_apart(read_rows(tmp_path / "profile.csv"), "threads")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40))
    on_gpu = measure(KnownModel(device=torch.device("cuda")), tmp_path)
    assert {row.threads for row in on_gpu} == {None}
    assert {row.memory for row in measure(KnownModel(), tmp_path, target=ON_VLLM)} == {None}


def test_settings_that_are_all_the_same_take_no_column(tmp_path):
    rows = measure(KnownModel(), tmp_path, target=Target("known", revision="v2"))
    for table in tables(rows):
        beside = set(SETTINGS) - {"backend"} - ({"dtype"} if table.name == "machine" else set())
        assert not beside & set(table.header)
    names = {record.name for record in records(rows)}
    assert "known.transformers.float32.sdpa.ttft.batch1.side64.query16.out1" in names
    assert all("=" not in name for name in names)


def test_a_profile_is_written_and_feeds_the_simulator(tmp_path):
    run = CliRunner()
    words = ["--image-side", "128", "--query-tokens", "16", "--query-tokens", "32"]
    words += ["--output-tokens", "4", "--repeats", "1", "--out", str(tmp_path)]
    assert run.invoke(app, ["profile", *words]).exit_code == 0
    figures = json.loads((tmp_path / "profile.json").read_text())
    assert {figure["name"].split(".")[0] for figure in figures} == {
        "machine",
        "demo:small",
        "demo:large",
    }
    measured = [figure for figure in figures if figure["unit"] == "ms"]
    assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in measured)
    assert "## Decoding" in (tmp_path / "profile.md").read_text()
    assert (tmp_path / "decode.png").read_bytes().startswith(b"\x89PNG")
    made = run.invoke(app, ["simulate", "--profile", str(tmp_path), "--questions", "20", "--json"])
    assert made.exit_code == 0
    totals = {figure["name"]: figure["value"] for figure in json.loads(made.stdout)}
    assert totals["POPE.mai.total"] > 0
    assert not any(name.startswith("table11") for name in totals)
