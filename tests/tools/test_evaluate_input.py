"""`mai evaluate`: questions of one's own, what a pair cannot do, bad input, and the help."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import pytest
from evaluations import mai, results
from PIL import Image

from langgraph_mai.configs import load_prompts
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.models.images import sources

STAR = {"question": "Is there a star?"}
BALL = {"question": "Is there a ball?"}


@pytest.fixture
def own(tmp_path):
    """Evaluates questions about a red image."""
    Image.new("RGB", (96, 96), "red").save(tmp_path / "red.png")
    file = tmp_path / "mine.jsonl"

    def run(*lines: dict, out: str = "out", more: tuple[str, ...] = ()):
        every = [{"images": "red.png", "answers": "no"} | line for line in lines]
        file.write_text("".join(json.dumps(line) + "\n" for line in every))
        words = ["evaluate", "own", "--data", str(file), "--strategy", "large_direct", "--json"]
        return mai(*words, "--out", str(tmp_path / out), *more)

    return run


def test_questions_of_ones_own_do_not_mix_with_others_in_a_folder(own, tmp_path):
    out = tmp_path / "out"
    done = own(STAR, BALL, STAR)
    assert done.exit_code == 0, done.output
    # Two are the same but for their ids.
    said = json.loads(done.stdout)
    assert (said["questions"], said["calls_made"], len(results(out))) == (3, 2, 3)
    files = {path.name: path.read_bytes() for path in out.glob("*.json*")}
    Image.new("RGB", (96, 96), "blue").save(tmp_path / "blue.png")
    for other in ({"question": "Is there a ring?"}, BALL | {"images": "blue.png"}):
        done = own(STAR, other, STAR)
        assert done.exit_code == 2
        assert "In this folder '2' is the id of another question" in done.stderr
    assert {name: (out / name).read_bytes() for name in files} == files
    # Right answers may be corrected, and questions added.
    corrected = [STAR | {"answers": "yes"}, BALL, STAR, {"question": "Is it red?"}]
    assert own(*corrected).exit_code == 0
    assert len(results(out)) == 4


@pytest.fixture
def web():
    """A web server with one image: its address, and the paths that were requested."""
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


def test_images_on_the_web_are_fetched_once_if_that_is_allowed(own, web, monkeypatch):
    monkeypatch.setattr(sources, "is_public", lambda ip: ip == "127.0.0.1")
    address, requests = web
    lines = [line | {"images": f"{address}/red.png"} for line in (STAR, BALL)]
    done = own(*lines)
    assert done.exit_code == 1
    assert "was not fetched because downloads are off; set allow_fetch=True" in done.stderr
    assert requests == []
    for _ in range(2):
        done = own(*lines, more=("--allow-fetch",))
        assert done.exit_code == 0, done.output
        assert requests == ["/red.png"]
    gone = STAR | {"images": f"{address}/gone.png"}
    done = own(gone, out="new", more=("--allow-fetch",))
    assert done.exit_code == 2
    assert (
        f"question 1: '{address}/gone.png' cannot be fetched (it was answered with " in done.stderr
    )


def test_errors_of_a_question_file_have_a_line_each(own, tmp_path):
    done = own(*[{"answers": 3}] * 12)
    assert done.exit_code == 2
    first, *lines, last = done.stderr.splitlines()
    assert (first, last) == (f"{tmp_path / 'mine.jsonl'}:", "and 2 more.")
    assert [line.partition(":")[0] for line in lines] == [f"line {n}" for n in range(1, 11)]


def test_all_is_what_a_pair_can_do_and_the_rest_is_named(tmp_path, away):
    words = ["evaluate", "shapes", "--pair", away, "--limit", "1"]
    done = mai(*words, "--out", str(tmp_path / "all"), "--strategy", "all", "--json")
    first, *_ = done.stderr.splitlines()
    assert first.startswith("Without speculative: Speculative decoding needs a large model that")
    assert "ChatServer takes none" in first
    failed = [one["strategy"] for one in json.loads(done.stdout)["failures"]]
    assert failed == [name for name in STRATEGIES if name != "speculative"]
    done = mai(*words, "--out", str(tmp_path / "one"), "--strategy", "speculative")
    assert done.exit_code == 2
    assert "ChatServer takes none" in done.stderr


def test_two_models_of_other_tokens_do_not_speculate(tmp_path, write_pair, qwen_checkpoint):
    pair = write_pair(large={"model": str(qwen_checkpoint)})
    words = ["evaluate", "shapes", "--pair", pair, "--limit", "1", "--out", str(tmp_path)]
    done = mai(*words, "--strategy", "speculative")
    assert done.exit_code == 2
    assert "their tokenizers differ" in done.stderr


def test_a_model_that_is_away_fails_every_question_in_a_line_each(tmp_path, away):
    out = tmp_path / "out"
    words = ["evaluate", "shapes", "--pair", away, "--limit", "2", "--strategy", "mai"]
    done = mai(*words, "--out", str(out), "--json")
    assert done.exit_code == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("failed 0000")]
    assert len(lines) == 2
    said = json.loads(done.stdout)
    assert [one["strategy"] for one in said["failures"]] == ["mai", "mai"]
    assert {one["role"] for one in said["failed_calls"]} == {"small", "large"}
    assert said["calls_stored"] == {}
    # The pair names no wording of its own: the benchmark's is taken.
    record = json.loads((out / "run.json").read_text())
    assert record["prompts"] == load_prompts("demo").model_dump()
    assert record["failures"] == said["failures"]


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/x/y", "x" * 300])
def test_a_folder_that_cannot_be_is_bad_input(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for more in ((), ("--timed",)):
        done = mai("evaluate", "shapes", "--limit", "1", "--out", out, *more)
        assert done.exit_code == 2
        assert f"'{out}' cannot be written (" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "shapes", "--strategy", "best"], "The strategy 'best' is unknown"),
        (["evaluate", "nothing"], "There is no benchmark 'nothing'"),
        (["evaluate", "shapes", "--out", "~nosuchuser/x"], "The home folder in '~nosuchuser/x'"),
        (["evaluate", "pope", "--data", "~nosuchuser/x"], "There is no file or folder '~nosuchus"),
        (["evaluate", "pope", "--data", "x" * 5_000 + "/x"], "The data set 'xxx"),
        (["evaluate", "own", "--data", "x" * 5_000], "cannot be read: there is no such file"),
        (["evaluate", "shapes", "--pair", "nobody"], "nobody"),
        (["evaluate", "own"], "need a file; name it with --data FILE"),
        (["report", "nowhere"], "There is no folder 'nowhere'"),
        (["report", ".", "--protocol", "mine"], "--protocol takes typed, strict"),
    ],
)
def test_bad_input_is_said_in_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = mai(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_what_scores_need_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    for more in ((), ("--timed",)):
        done = mai("evaluate", "shapes", "--limit", "1", "--out", str(tmp_path / "out"), *more)
        assert done.exit_code == 2
        assert done.stderr.startswith("This needs rapidfuzz; install it with: ")
    assert list(tmp_path.iterdir()) == []


def test_help_names_strategies_and_defaults(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    done = mai("evaluate", "--help")
    assert done.exit_code == 0
    for said in (f"{', '.join(STRATEGIES)}; or all.", "(8; timed, 1)", "(evaluations/BENCHMARK-"):
        assert said in " ".join(done.stdout.split())
    (timed,) = [line for line in done.stdout.splitlines() if "--timed" in line and "warm" in line]
    assert "bool" not in timed
