"""`mai evaluate own`: questions of one's own."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import pytest
from evaluations import mai, results
from PIL import Image


@pytest.fixture
def web():
    """A web server with one picture: its address, and the paths that were asked for."""
    requests = []
    stream = BytesIO()
    Image.new("RGB", (96, 96), "red").save(stream, "PNG")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_response(200 if self.path == "/red.png" else 404)
            self.end_headers()
            self.wfile.write(stream.getvalue())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def test_questions_of_ones_own(tmp_path):
    Image.new("RGB", (96, 96), "red").save(tmp_path / "red.png")
    file = tmp_path / "mine.jsonl"
    lines = [
        {"question": "Is there a star?", "images": "red.png", "answers": "no"},
        {"question": "Is there a star?", "images": "red.png", "answers": "no"},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct", "--json"]
    done = mai(*words, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    # The two are the same but for their ids.
    assert (said["questions"], said["calls_made"]) == (2, 1)
    assert len(results(tmp_path / "out")) == 2


def test_other_questions_of_the_same_name_do_not_mix_into_a_folder(tmp_path):
    Image.new("RGB", (96, 96), "red").save(tmp_path / "red.png")
    out = tmp_path / "out"

    def asked(*lines: dict):
        file = tmp_path / "mine.jsonl"
        every = [{"images": "red.png", "answers": "no"} | line for line in lines]
        file.write_text("".join(json.dumps(line) + "\n" for line in every))
        words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct"]
        return mai(*words, "--out", str(out))

    star, ball = {"question": "Is there a star?"}, {"question": "Is there a ball?"}
    assert asked(star, ball).exit_code == 0
    files = {path.name: path.read_bytes() for path in out.glob("*.json*")}
    Image.new("RGB", (96, 96), "blue").save(tmp_path / "blue.png")
    for other in ({"question": "Is there a ring?"}, ball | {"images": "blue.png"}):
        done = asked(star, other)
        assert done.exit_code == 2
        assert "In this folder '2' is the id of another question" in done.stderr
    assert {name: (out / name).read_bytes() for name in files} == files
    # Right answers may be corrected, and questions added.
    assert asked(star | {"answers": "yes"}, ball, {"question": "Is it red?"}).exit_code == 0
    assert len(results(out)) == 3


def test_pictures_on_the_web_are_fetched_if_that_is_allowed(tmp_path, web):
    address, requests = web
    file = tmp_path / "mine.jsonl"
    line = {"question": "Is there a star?", "images": f"{address}/red.png", "answers": "no"}
    file.write_text(json.dumps(line) + "\n" + json.dumps(line | {"question": "Is it red?"}))
    words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct"]
    out = tmp_path / "out"
    done = mai(*words, "--out", str(out))
    assert done.exit_code == 1
    assert "was not fetched because downloads are off; set allow_fetch=True" in done.stderr
    assert requests == []
    for _ in range(2):
        done = mai(*words, "--out", str(out), "--allow-fetch")
        assert done.exit_code == 0, done.output
        assert requests == ["/red.png"]
    file.write_text(json.dumps(line | {"images": f"{address}/gone.png"}))
    done = mai(*words, "--out", str(tmp_path / "new"), "--allow-fetch")
    assert done.exit_code == 2
    assert f"question 1: '{address}/gone.png' was answered with HTTP status 404" in done.stderr


def test_faults_of_a_question_file_have_a_line_each(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("{\n" * 12)
    done = mai("evaluate", "own", "--data", str(file), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    first, *lines, last = done.stderr.splitlines()
    assert (first, last) == (f"{file}:", "and 2 more.")
    assert [line[: len("line 1")] for line in lines[:9]] == [f"line {n}" for n in range(1, 10)]
    assert len(lines) == 10
