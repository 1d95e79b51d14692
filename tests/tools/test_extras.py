import subprocess
import sys

import pytest

from langgraph_mai.tools.errors import UsageError
from langgraph_mai.tools.options import require


def test_a_missing_package_names_its_extra():
    require("json", "typer", extra="any")
    with pytest.raises(UsageError, match=r'needs no_such_package; .*"langgraph-mai\[profiling\]"'):
        require("json", "no_such_package", extra="profiling")


def test_the_report_of_a_profile_needs_no_simulator_and_draws_late():
    code = (
        "import sys, langgraph_mai.profiling.profile_report; "
        "print('simpy' in sys.modules, 'matplotlib' in sys.modules)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
