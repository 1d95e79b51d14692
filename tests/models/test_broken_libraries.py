"""Libraries of local models that are missing, or do not fit each other."""

import subprocess
import sys

import pytest

LOAD = """
import sys
{fault}
from langgraph_mai import load_pair
try:
    load_pair().small.load()
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("sys.modules['torchvision'] = None", ["Local models need torchvision; install it with: "]),
        (
            "sys.path.insert(0, {folder!r})",
            ["do not fit each other (operator torchvision::nms does not exist);", "torch ", "pip"],
        ),
    ],
)
def test_the_sentence_says_what_is_wrong(tmp_path, fault, said):
    package = tmp_path / "torchvision"
    package.mkdir()
    lines = "raise RuntimeError('operator torchvision::nms does not exist')\n"
    (package / "__init__.py").write_text(lines)
    code = LOAD.format(fault=fault.format(folder=str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for part in said:
        assert part in done.stdout
    assert len(done.stdout.splitlines()) == 1
