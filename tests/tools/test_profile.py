"""`mai profile`: what it refuses, and that nothing is lost or loaded then."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_mai.benchmarks.records import holding
from langgraph_mai.profiling import components
from langgraph_mai.profiling.profile_rows import read_rows
from langgraph_mai.tools.cli import app

QUICK = ["--image-side", "64", "--query-tokens", "8", "--output-tokens", "2", "--repeats", "1"]


def profile(folder, *words):
    return CliRunner().invoke(app, ["profile", *QUICK, *words, "--out", str(folder)])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def assert_refused(done, *parts):
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()) == 1
    for part in parts:
        assert part in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
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
def test_bad_usage_is_one_sentence(words, sentence):
    assert_refused(CliRunner().invoke(app, ["profile", *words]), sentence)


def test_a_foreign_profile_csv_is_refused_and_stays(tmp_path):
    (tmp_path / "profile.csv").write_text("date,amount\n1,2\n")
    before = contents(tmp_path)
    assert_refused(profile(tmp_path), str(tmp_path / "profile.csv"), "other columns")
    assert contents(tmp_path) == before


def test_a_concurrent_run_into_a_folder_is_refused_and_nothing_is_lost(tmp_path):
    assert profile(tmp_path, "--model", "demo:small").exit_code == 0
    before = contents(tmp_path)
    with holding(tmp_path, "mai profile"):
        assert_refused(profile(tmp_path, "--output-tokens", "3"), "is running", str(tmp_path))
    assert contents(tmp_path) == before
    again = profile(tmp_path, "--model", "demo:small", "--output-tokens", "3")
    assert again.exit_code == 0
    assert contents(tmp_path)["profile.csv"].startswith(before["profile.csv"])


def test_a_folder_that_cannot_be_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    before = contents(tmp_path)
    monkeypatch.setattr(components, "profile_models", pytest.fail)
    for below in (".", "deeper", "deeper/still"):
        assert_refused(profile(tmp_path / "file" / below), "cannot be written")
    assert contents(tmp_path) == before
    if Path("/proc/self").is_dir():
        assert_refused(profile("/proc/profile"), "'/proc/profile' cannot be written")


def test_a_mistyped_model_or_device_is_one_sentence_and_gone_with_the_next_run(tmp_path):
    for wrong, sentence in (
        (["--model", "./missing"], "There is no model folder"),
        (["--model", "demo:small", "--dtype", "floatt32"], "'floatt32' is not known"),
        *(
            ([*model, "--device", device], f"The device {device!r} is not known; use")
            for device in ("meta", "xpu", "gpu")
            for model in (["--model", "demo:small"], ["--model", "Qwen3-VL-2B", "--random-weights"])
        ),
    ):
        done = profile(tmp_path, *wrong)
        assert done.exit_code == 1
        assert sentence in done.stderr.strip().splitlines()[-1]
        assert "unexpected" not in done.stderr
        assert "weights" in (tmp_path / "profile.csv").read_text()
    assert profile(tmp_path, "--model", "demo:small").exit_code == 0
    rows = read_rows(tmp_path / "profile.csv")
    assert {(row.model, row.dtype, row.skipped) for row in rows} == {("demo:small", "float32", "")}
    assert "Skipped" not in (tmp_path / "profile.md").read_text()


def test_images_that_do_not_fit_in_memory_are_not_made(tmp_path):
    words = ["--model", "demo:small", "--batch", "1000000000", "--image-side", "256"]
    words += ["--query-tokens", "64", "--output-tokens", "8", "--repeats", "1"]
    done = CliRunner().invoke(app, ["profile", *words, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = read_rows(tmp_path / "profile.csv")
    assert [row.component for row in rows] == ["preprocess", "vision", "ttft", "decode"]
    assert all(row.skipped.startswith(("needs 1769472.0 GB", "takes at least")) for row in rows)
