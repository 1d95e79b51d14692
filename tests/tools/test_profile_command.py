"""What `mai profile` refuses, and that nothing is lost or loaded then."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_mai.profiling import profile_run
from langgraph_mai.profiling.profile_rows import read_rows
from langgraph_mai.records.held_folder import holding
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


def assert_refused(done, *said):
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()) == 1
    for text in said:
        assert text in done.stderr


@pytest.mark.parametrize("words", [[], ["--decoding", "1"]])
def test_a_foreign_profile_csv_is_refused_and_stays(tmp_path, words):
    (tmp_path / "profile.csv").write_text("date,amount\n1,2\n")
    before = contents(tmp_path)
    assert_refused(profile(tmp_path, *words), str(tmp_path / "profile.csv"), "other columns")
    assert contents(tmp_path) == before


def test_a_second_run_into_a_folder_is_refused_and_nothing_is_lost(tmp_path):
    assert profile(tmp_path).exit_code == 0
    before = contents(tmp_path)
    with holding(tmp_path, "mai profile"):
        assert_refused(profile(tmp_path, "--output-tokens", "3"), "is running", str(tmp_path))
    assert contents(tmp_path) == before
    assert profile(tmp_path, "--output-tokens", "3").exit_code == 0
    assert set(before) == set(contents(tmp_path))
    assert contents(tmp_path)["profile.csv"].startswith(before["profile.csv"])


@pytest.mark.parametrize("below", [".", "deeper", "deeper/still"])
def test_a_folder_that_cannot_be_is_refused_before_anything_is_done(tmp_path, below, monkeypatch):
    (tmp_path / "file").write_text("mine")
    before = contents(tmp_path)
    monkeypatch.setattr(profile_run, "profile_models", pytest.fail)
    assert_refused(profile(tmp_path / "file" / below), "cannot be written")
    assert contents(tmp_path) == before


def test_a_folder_in_proc_is_refused():
    if Path("/proc/self").is_dir():
        assert_refused(profile("/proc/profile"), "'/proc/profile' cannot be written")


@pytest.mark.parametrize(
    "wrong", [["--model", "./missing"], ["--model", "demo:small", "--dtype", "floatt32"]]
)
def test_a_mistyped_model_is_gone_with_the_next_run(tmp_path, wrong):
    assert profile(tmp_path, *wrong).exit_code == 1
    assert "weights" in (tmp_path / "profile.csv").read_text()
    assert profile(tmp_path, "--model", "demo:small").exit_code == 0
    rows = read_rows(tmp_path / "profile.csv")
    assert {(row.model, row.dtype, row.skipped) for row in rows} == {("demo:small", "float32", "")}
    assert "Skipped" not in (tmp_path / "profile.md").read_text()


@pytest.mark.parametrize("device", ["meta", "xpu", "gpu", "mtia:0"])
@pytest.mark.parametrize(
    "model", [["--model", "demo:small"], ["--model", "Qwen3-VL-2B", "--random-weights"]]
)
def test_a_device_that_is_not_known_is_said_in_one_sentence(tmp_path, model, device):
    done = profile(tmp_path, *model, "--device", device)
    assert done.exit_code == 1
    assert f"The device {device!r} is not known; use" in done.stderr.strip().splitlines()[-1]
    assert "unexpected" not in done.stderr
