import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from langgraph_mai import ConfigError
from langgraph_mai.configs.files import check_folder, write_whole

FULL = """
import resource, sys
from pathlib import Path
from langgraph_mai.configs.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), bytes(5000))
except ValueError as error:
    print(error)
"""


def test_a_file_is_written_into_a_folder_that_is_made(tmp_path):
    write_whole(tmp_path / "a" / "b.txt", "größer")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "größer".encode()
    write_whole(tmp_path / "a" / "b.txt", b"new")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.txt"]
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"


def test_where_there_is_no_room_the_old_file_stays(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"'{path}' cannot be written ({os.strerror(errno.EFBIG)});")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/x/y", "long" * 100])
def test_a_folder_that_cannot_be_is_said(tmp_path, name):
    (tmp_path / "file").write_text("")
    folder = tmp_path / name
    with pytest.raises(ConfigError, match="cannot be written"):
        check_folder(folder)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_whole(folder / "a.txt", "")


def test_a_folder_that_can_be_is_left_as_it_is(tmp_path):
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path)
    check_folder(Path("not there yet"))
    assert list(tmp_path.iterdir()) == []
