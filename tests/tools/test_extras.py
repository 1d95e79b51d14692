import subprocess
import sys

import pytest

from langgraph_mai.tools.errors import UsageError
from langgraph_mai.tools.options import require


def test_a_missing_package_names_its_extra():
    require("json", "typer", extra="any")
    with pytest.raises(UsageError, match=r'needs no_such_package; .*"langgraph-mai\[profiling\]"'):
        require("json", "no_such_package", extra="profiling")


def test_profiling_a_model_needs_no_simulator():
    code = (
        "import sys, langgraph_mai.profiling.components, "
        "langgraph_mai.profiling.profile_report; "
        "print('simpy' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "False"]
