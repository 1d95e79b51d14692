"""The command as a process of its own: what is on which stream, signals, pipes."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from PIL import Image
from processes import MAI


def start(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MAI, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def test_json_alone_is_on_stdout(tmp_path):
    """Though a part of the image is broken that Pillow can do without."""
    path = tmp_path / "a.jpg"
    Image.new("RGB", (64, 64)).save(path, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    process = start("ask", str(path), "How many fingers has a hand?", "--json")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    result = json.loads(out)
    assert set(result) >= {"answer", "route", "fallback", "calls"}
    assert result["answer"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("seconds", [0.3, 1.6])
def test_ctrl_c_ends_with_one_line(seconds):
    process = start("ask", "How many fingers has a hand?", "--no-image")
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it had finished before the signal came")
    assert (process.returncode, out, err) == (130, "", "Stopped.\n")


def test_a_closed_pipe_is_no_traceback():
    process = start("pairs", "--json")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert err == ""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_the_output_cannot_show_is_an_escape(encoding, tmp_path):
    model = "{model: 红, base_url: 'http://127.0.0.1:9/v1', retries: 0}"
    pair = f"backend: server\nsmall: {model}\nlarge: {model}\n"
    (tmp_path / "红.yaml").write_text(pair, encoding="utf-8")
    process = start("check", str(tmp_path / "红.yaml"), PYTHONIOENCODING=encoding, COLUMNS="200")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, "")
    assert "\\u7ea2" in out
    assert "cannot be reached" in out


@pytest.mark.skipif(os.name == "nt", reason="Windows' shell does not close streams")
@pytest.mark.parametrize(
    ("words", "closed"),
    [
        *(("pairs --json", closed) for closed in (">&-", "2>&-", "<&-")),
        *(
            (words, "<&- >&- 2>&-")
            for words in ("pairs", "--help", "ask --no-image 'Is it?' --json")
        ),
    ],
)
def test_closed_streams_are_no_failure(words, closed):
    done = subprocess.run(
        f"{shlex.join(MAI)} {words} {closed}",
        shell=True,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.split())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_full_disk_is_one_sentence():
    words = [*MAI, "pairs", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "No space left" in done.stderr
