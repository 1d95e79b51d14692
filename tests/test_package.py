import subprocess
import sys
from importlib.metadata import version

import pytest

import langgraph_mai

HEAVY = ("torch", "transformers", "torchvision", "vllm")


def loaded_after(code: str) -> list[str]:
    """Which heavy packages a fresh Python has loaded after running some code."""
    report = f"import sys\n{code}\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60
    )
    return eval(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "code",
    [
        "import langgraph_mai",
        "from langgraph_mai import *",
        "from langgraph_mai import load_pair; load_pair('qwen3-vl-2b-8b')",
        "import langgraph_mai.graph.studio; import langgraph_mai.tools.studio",
        """
from langgraph_mai import create_mai, load_pair
pair = load_pair()
create_mai(pair.small, pair.large, prompts=pair.prompts).get_graph().draw_mermaid()
""",
        """
from typer.testing import CliRunner
from langgraph_mai.tools.cli import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
""",
    ],
)
def test_nothing_heavy_loads_before_a_model_is_used(code):
    assert loaded_after(code) == []


def test_importing_the_package_loads_no_langgraph():
    assert loaded_after("import langgraph_mai; assert 'langgraph' not in sys.modules") == []


def test_every_public_name_is_there():
    for name in langgraph_mai.__all__:
        assert getattr(langgraph_mai, name) is not None
        assert name in dir(langgraph_mai)
    with pytest.raises(AttributeError, match="no attribute 'create_may'"):
        langgraph_mai.create_may  # noqa: B018


def test_the_version_is_the_distributions():
    assert langgraph_mai.__version__ == version("langgraph-mai")
