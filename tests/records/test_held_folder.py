"""A folder is written by one process at a time."""

import subprocess
import sys

import pytest

from langgraph_mai.configs import ConfigError
from langgraph_mai.records.held_folder import holding

HOLDS = (
    "import sys, pathlib; from langgraph_mai.records.held_folder import holding\n"
    "with holding(pathlib.Path(sys.argv[1]), 'mai profile'): print(flush=True); sys.stdin.read()"
)


def test_a_folder_is_held_until_it_is_let_go(tmp_path):
    folder = tmp_path / "new" / "results"
    with holding(folder, "mai profile"):
        with pytest.raises(ConfigError) as refusal, holding(folder, "mai profile"):
            pass
        with holding(folder, "mai bench"), holding(tmp_path, "mai profile"):
            pass
    assert str(refusal.value) == (
        f"Another 'mai profile' is running in {str(folder)!r}; wait for it, or name another folder."
    )
    with holding(folder, "mai profile"):
        pass


def test_another_process_is_refused_and_one_that_was_killed_holds_nothing(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        other.stdout.readline()
        with pytest.raises(ConfigError, match="is running"), holding(tmp_path, "mai profile"):
            pass
        other.kill()
    with holding(tmp_path, "mai profile"):
        pass


def test_an_error_inside_lets_go(tmp_path):
    with pytest.raises(ZeroDivisionError), holding(tmp_path, "mai profile"):
        raise ZeroDivisionError
    with holding(tmp_path, "mai profile"):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(ConfigError, match="cannot be written"), holding(tmp_path / "file", "mai"):
        pass
    (tmp_path / ".mai.lock").mkdir()
    with pytest.raises(ConfigError, match="cannot be written"), holding(tmp_path, "mai"):
        pass
