import json

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from langgraph_mai import __version__
from langgraph_mai.tools.cli import app

CALL_KEYS = {
    "cached",
    "unit",
    "value",
    "role",
    "style",
    "text",
    "answer",
    "kind",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "seconds",
    "finish_reason",
    "cut",
    "error",
}


def mai(*words: str):
    return CliRunner().invoke(app, [*words])


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "red circle.png"
    Image.new("RGB", (128, 128), "red").save(path)
    return str(path)


def test_help_names_the_commands():
    result = mai("--help")
    assert result.exit_code == 0
    for command in ("ask", "pairs", "check", "bench"):
        assert command in result.stdout


def test_version():
    assert mai("--version").stdout == f"mai {__version__}\n"


def test_ask_prints_answer_route_and_calls(image):
    result = mai("ask", image, "Is there a red circle?")
    assert result.exit_code == 0
    assert result.stderr == ""
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("answer")
    assert second.startswith("route")
    for word in ("small", "large", "direct", "tokens in", "cached", "seconds"):
        assert word in result.stdout


def test_ask_with_a_draft_tells_the_accept_rate(image):
    words = ["ask", image, "Is there a red circle?"]
    plain = json.loads(mai(*words, "--strategy", "large_reason", "--json").stdout)
    drafted = json.loads(mai(*words, "--strategy", "speculative", "--json").stdout)
    (one,), (other,) = plain["calls"], drafted["calls"]
    assert one["text"] == other["text"]
    assert set(one) == CALL_KEYS
    assert set(other) == CALL_KEYS | {"drafted_tokens", "accepted_tokens"}
    shown = mai(*words, "--strategy", "speculative").stdout
    assert "accept rate" in shown
    assert f"{other['accepted_tokens'] / other['drafted_tokens']:.1%}" in shown
    assert "accept rate" not in mai(*words).stdout


def test_ask_says_where_there_is_no_speculation(image, tmp_path):
    pair = tmp_path / "pair.yaml"
    server = "{model: m, base_url: 'http://127.0.0.1:9/v1'}"
    pair.write_text(f"backend: server\nsmall: {server}\nlarge: {server}\n")
    result = mai("ask", image, "Is it red?", "--pair", str(pair), "--strategy", "speculative")
    assert result.exit_code == 2
    assert "ChatServer takes none" in result.stderr


def test_ask_prints_one_json_object_and_nothing_else(image):
    result = mai("ask", image, "Is there a red circle?", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    answered = json.loads(result.stdout)
    assert answered["answer"]
    assert answered["route"] in {"direct", "reasoned", "transferred"}
    assert "fallback" in answered
    assert answered["pair"] == "demo"
    for call in answered["calls"]:
        assert set(call) == CALL_KEYS


def test_ask_needs_no_image():
    assert mai("ask", "How many fingers has a hand?", "--json").exit_code == 0


def test_ask_takes_many_images_choices_and_a_type(image):
    words = ["--choice", "one", "--choice", "two", "--answer-type", "choice"]
    result = mai("ask", image, image, "How many are red?", *words, "--json")
    assert result.exit_code == 0
    assert {call["kind"] for call in json.loads(result.stdout)["calls"]} == {"choice"}


def test_ask_takes_a_strategy_and_shows_the_reasoning(image):
    words = ["--strategy", "small_reason"]
    answered = json.loads(mai("ask", image, "Is it red?", *words, "--json").stdout)
    assert [(c["role"], c["style"]) for c in answered["calls"]] == [("small", "reason")]
    shown = mai("ask", image, "Is it red?", *words, "--show-reasoning").stdout
    assert "small reason" in shown
    assert answered["calls"][0]["text"].splitlines()[0] in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Is it?", "--pair", "demoo"], "There is no pair 'demoo'; did you mean 'demo'?"),
        (["Is it?", "--pair", "no.yaml"], "There is no pair file 'no.yaml'."),
        (["Is it?", "--answer-type", "essay"], "The answer type 'essay' is unknown"),
        (["Is it?", "--strategy", "best"], "The strategy 'best' is unknown"),
        (["/nowhere/a.png", "Is it?"], "/nowhere/a.png"),
        (["https://example.com/a.png", "Is it?"], "https://example.com/a.png"),
        (["Which?", "--choice", "x", "--choice", "x"], "The choice 'x' is given twice"),
        (["Is it?", "--pair", "x" * 3000], "There is no pair 'xxx"),
        (["Is it?", "--pair", "~nobody-of-this-name/x.yaml"], "There is no pair file '~nobody"),
        (["~nobody-of-this-name/x.png", "Is it?"], "The home folder in"),
        (["x" * 3000, "Is it?"], "cannot be read"),
        (["caf\udce9?"], "The question 'caf\\udce9?' is not valid UTF-8"),
        (["\ud83d?"], "The question '\\ud83d?' is not valid UTF-8"),
        (["Which?", "--choice", "\udce9", "--choice", "x"], "A choice '\\udce9' is not valid"),
        ([" "], "The question is empty"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words, sentence):
    result = mai("ask", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_forgotten_question_is_noticed(image):
    result = mai("ask", image)
    assert result.exit_code == 2
    assert "The last argument is the question, but" in result.stderr


@pytest.mark.parametrize("question", ["x" * 1500, "a" * 300 + "/b?", "/" * 300, "~nobody/x?"])
def test_a_question_that_cannot_be_a_file_name_is_asked(question):
    answered = json.loads(mai("ask", question, "--strategy", "small_direct", "--json").stdout)
    assert answered["question"] == question


def test_arguments_of_a_locale_without_utf_8_are_understood():
    question = "红色的圆有几个?".encode().decode("ascii", "surrogateescape")
    answered = json.loads(mai("ask", question, "--strategy", "small_direct", "--json").stdout)
    assert answered["question"] == "红色的圆有几个?"


def test_json_is_ascii(tmp_path):
    (tmp_path / "红.yaml").write_text(
        "small: {model: 'demo:small'}\nlarge: {model: 'demo:large'}\nprompts: demo\n",
        encoding="utf-8",
    )
    pair = str(tmp_path / "红.yaml")
    for words in (["ask", "红?", "--pair", pair], ["check", pair]):
        out = mai(*words, "--json").stdout
        assert out.isascii()
        assert json.loads(out)["pair"] == pair


@pytest.mark.parametrize("content", ["small: {model: x, revision: 2024-13-45}", "[" * 5000])
def test_a_pair_file_that_is_no_yaml_is_bad_input(tmp_path, content):
    (tmp_path / "pair.yaml").write_text(content)
    result = mai("ask", "Is it?", "--pair", str(tmp_path / "pair.yaml"))
    assert result.exit_code == 2
    assert "cannot be read as YAML" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [["ask"], ["ask", "Is it?", "--no-such-option"], ["answer"]])
def test_bad_usage_is_exit_code_2(words):
    assert mai(*words).exit_code == 2


@pytest.fixture
def broken_pair(tmp_path):
    path = tmp_path / "pair.yaml"
    path.write_text("small: {model: 'demo:small'}\nlarge: {model: ./nowhere}\nprompts: demo\n")
    return str(path)


def test_one_missing_model_is_reported_and_the_other_answers(broken_pair, image):
    result = mai("ask", image, "Is there a red circle?", "--pair", broken_pair, "--json")
    assert result.exit_code == 0
    answered = json.loads(result.stdout)
    assert answered["fallback"] == "small_direct"
    assert "nowhere" in answered["calls"][1]["error"]


def test_a_failed_run_is_exit_code_1(broken_pair):
    result = mai("ask", "Is it?", "--pair", broken_pair, "--strategy", "large_direct")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "There is no model folder" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_debug_shows_where(broken_pair):
    words = ["--pair", broken_pair, "--strategy", "large_direct", "--debug"]
    result = mai("ask", "Is it?", *words)
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "MAIError" in result.stderr


def test_pairs_lists_what_there_is():
    assert "qwen3-vl-2b-8b" in mai("pairs").stdout
    (demo,) = [pair for pair in json.loads(mai("pairs", "--json").stdout) if pair["name"] == "demo"]
    assert set(demo) == {"name", "small", "large", "backend", "description"}


def test_check_says_that_a_pair_works():
    assert "The pair demo can be used." in mai("check").stdout
    checked = json.loads(mai("check", "demo", "--json").stdout)
    assert checked["ok"] is True
    for model in checked["models"]:
        assert model["error"] is None
        assert model["answer"]
        assert model["load_seconds"] >= 0
        assert model["answer_seconds"] > 0


def test_check_says_what_is_missing(broken_pair):
    result = mai("check", broken_pair, "--json")
    assert result.exit_code == 1
    small, large = json.loads(result.stdout)["models"]
    assert small["error"] is None
    assert "There is no model folder" in large["error"]


def test_check_says_whose_attention_sparse_transfer_selects_by(tmp_path):
    assert "by the attention of the large model, layer 2." in mai("check").stdout
    demo = {"small": {"model": "demo:small"}, "large": {"model": "demo:large"}, "prompts": "demo"}
    path = tmp_path / "pair.yaml"
    for selector, layer, by in (
        ("small", 1, {"by": "small", "layer": 1, "error": None}),
        ({"model": "demo:large"}, 3, {"by": "selector", "layer": 3, "error": None}),
    ):
        pair = demo | {"selector": selector, "sparse": {"layer": layer}}
        path.write_text(yaml.safe_dump(pair))
        assert json.loads(mai("check", str(path), "--json").stdout)["sparse_transfer"] == by


def test_check_says_why_sparse_transfer_cannot_be_used(tmp_path):
    demo = {"small": {"model": "demo:small"}, "large": {"model": "demo:large"}, "prompts": "demo"}
    path = tmp_path / "pair.yaml"
    path.write_text(yaml.safe_dump(demo | {"sparse": {"layer": 99}}))
    result = mai("check", str(path))
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert "Sparse transfer cannot be used: The model" in shown
    assert "can be used." in shown
    path.write_text(yaml.safe_dump(demo | {"selector": {"model": "./nowhere"}}))
    result = mai("check", str(path), "--json")
    assert result.exit_code == 1
    checked = json.loads(result.stdout)
    assert checked["ok"] is False
    assert "There is no model folder" in checked["sparse_transfer"]["error"]


def test_check_refuses_a_file_that_is_no_pair(tmp_path):
    (tmp_path / "pair.yaml").write_text("small: {model: x}\n")
    result = mai("check", str(tmp_path / "pair.yaml"))
    assert result.exit_code == 2
    assert "the key 'large' is missing" in result.stderr


def test_a_chosen_option_is_shown_with_its_text(demo_weights):
    shapes = str(demo_weights.parent / "pictures" / "shapes.png")
    choices = [word for text in ("2", "3", "4") for word in ("--choice", text)]
    shown = mai("ask", shapes, "How many stars are there?", *choices).stdout
    letter, text = shown.splitlines()[0].removeprefix("answer").split()
    assert (letter, text) in {("A", "2"), ("B", "3"), ("C", "4")}


def test_debug_keeps_the_exit_code_of_bad_input():
    done = mai("ask", "no-such-image.png", "Is it red?", "--debug")
    assert done.exit_code == 2
    assert "Traceback" in done.stderr
