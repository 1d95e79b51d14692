import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("given", ["nothing", "image and question"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, given, tmp_path, monkeypatch, capfd):
    image = tmp_path / "red.png"
    Image.new("RGB", (128, 128), "red").save(image)
    words = [str(image)] if example.stem == "remember" else [str(image), "Is it red?"]
    monkeypatch.setattr(sys, "argv", [str(example), *(words if given != "nothing" else [])])
    runpy.run_path(str(example), run_name="__main__")
    written = capfd.readouterr()
    assert written.err == ""
    assert written.out.strip()


def test_an_example_is_a_process_of_its_own():
    """As its reader starts it; the others run above, where the models are loaded already."""
    words = [sys.executable, "-W", "error", str(EXAMPLES[0])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
