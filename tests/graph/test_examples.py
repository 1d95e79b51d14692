import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


@each
def test_an_example_runs(example):
    """As a process of its own, as its reader starts it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@each
def test_an_example_takes_a_picture_and_a_question(example, tmp_path, monkeypatch, capfd):
    picture = tmp_path / "red.png"
    Image.new("RGB", (128, 128), "red").save(picture)
    words = [str(picture)] if example.stem == "remember" else [str(picture), "Is it red?"]
    monkeypatch.setattr(sys, "argv", [str(example), *words])
    runpy.run_path(str(example), run_name="__main__")
    written = capfd.readouterr()
    assert written.err == ""
    assert written.out.strip()
