import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("given", [True, False], ids=["arguments", "no arguments"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, given, tmp_path):
    picture = tmp_path / "red.png"
    Image.new("RGB", (128, 128), "red").save(picture)
    words = [str(picture)] if example.stem == "remember" else [str(picture), "Is it red?"]
    words = words if given else []
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
