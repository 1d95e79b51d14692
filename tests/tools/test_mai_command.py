"""`mai ask`, `mai pairs` and `mai check` in this process: answers, exit codes, sentences."""

import json
from pathlib import Path

import pytest
from evaluations import mai
from PIL import Image

from langgraph_mai import __version__

CALL_KEYS = {
    *("role", "style", "text", "answer", "value", "unit", "kind", "finish_reason", "cut", "error"),
    *("input_tokens", "output_tokens", "cached_tokens", "seconds", "cached"),
    *("reasoning", "images", "probability"),
}
RED = "Is there a red circle?"


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "red circle.png"
    Image.new("RGB", (128, 128), "red").save(path)
    return str(path)


@pytest.fixture
def broken_pair(write_pair):
    return write_pair(large={"model": "./nowhere"})


def asked(*words: str) -> dict:
    done = mai("ask", *words, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_help_and_version():
    shown = mai("--help")
    assert shown.exit_code == 0
    for command in ("ask", "pairs", "check", "bench"):
        assert command in shown.stdout
    assert mai("--version").stdout == f"mai {__version__}\n"


def test_ask_prints_answer_route_and_calls(image):
    shown = mai("ask", image, RED)
    assert (shown.exit_code, shown.stderr) == (0, "")
    first, second, *_ = shown.stdout.splitlines()
    assert first.startswith("answer")
    assert second.startswith("route")
    for word in ("small", "large", "direct", "tokens in", "cached", "seconds"):
        assert word in shown.stdout
    assert "accept" not in shown.stdout
    answered = asked(image, RED)
    assert answered["answer"]
    assert answered["route"] in {"direct", "reasoned", "transferred"}
    assert (answered["pair"], "fallback" in answered) == ("demo", True)
    assert all(set(call) == CALL_KEYS for call in answered["calls"])


def test_ask_with_a_draft_tells_the_accept_rate(image):
    plain, drafted = (
        asked(image, RED, "--strategy", name)["calls"] for name in ("large_reason", "speculative")
    )
    (one,), (other,) = plain, drafted
    assert one["text"] == other["text"]
    assert set(other) == CALL_KEYS | {"drafted_tokens", "accepted_tokens"}
    shown = mai("ask", image, RED, "--strategy", "speculative").stdout
    assert "accept" in shown.splitlines()[2]
    assert f"{other['accepted_tokens'] / other['drafted_tokens']:.1%}" in shown


def test_ask_takes_many_images_choices_and_a_type(image):
    words = ["--choice", "one", "--choice", "two", "--answer-type", "choice"]
    calls = asked(image, image, "How many are red?", *words)["calls"]
    assert {call["kind"] for call in calls} == {"choice"}


def test_ask_takes_a_strategy_and_shows_the_reasoning(image):
    words = [image, "Is it red?", "--strategy", "small_reason"]
    (call,) = asked(*words)["calls"]
    assert (call["role"], call["style"]) == ("small", "reason")
    shown = mai("ask", *words, "--show-reasoning").stdout
    assert "small reason" in shown
    assert call["text"].splitlines()[0] in shown


def test_a_chosen_option_is_shown_with_its_text(demo_weights):
    shapes = str(demo_weights.parent / "pictures" / "shapes.png")
    choices = [word for text in ("2", "3", "4") for word in ("--choice", text)]
    shown = mai("ask", shapes, "How many stars are there?", *choices).stdout
    letter, text = shown.splitlines()[0].removeprefix("answer").split()
    assert (letter, text) in {("A", "2"), ("B", "3"), ("C", "4")}


BAD = [
    (["Is it?", "--pair", "demoo"], "There is no pair 'demoo'; did you mean 'demo'?"),
    (["Is it?", "--pair", "no.yaml"], "There is no pair file 'no.yaml'."),
    (["Is it?", "--answer-type", "essay"], "The answer type 'essay' is unknown"),
    (["Is it?", "--no-image", "--strategy", "best"], "The strategy 'best' is unknown"),
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
    (["Is it?"], "There is no image: give one before the question, or --no-image"),
    (["a.png", "Is it?", "--no-image"], "a.png"),
    ([__file__], "The last argument is the question, but"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(words, sentence):
    result = mai("ask", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_speculation_it_says_why(away):
    result = mai("ask", "Is it red?", "--no-image", "--pair", away, "--strategy", "speculative")
    assert result.exit_code == 2
    assert "ChatServer takes none" in result.stderr


@pytest.mark.parametrize("content", ["small: {model: x, revision: 2024-13-45}", "[" * 5000])
def test_a_pair_file_that_is_no_yaml_is_bad_input(tmp_path, content):
    (tmp_path / "pair.yaml").write_text(content)
    result = mai("ask", "Is it?", "--no-image", "--pair", str(tmp_path / "pair.yaml"))
    assert result.exit_code == 2
    assert "cannot be read as YAML" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [["ask"], ["ask", "Is it?", "--no-such-option"], ["answer"]])
def test_bad_usage_is_exit_code_2(words):
    assert mai(*words).exit_code == 2


@pytest.mark.parametrize("question", ["x" * 1500, "a" * 300 + "/b?", "/" * 300, "~nobody/x?"])
def test_a_question_that_cannot_be_a_file_name_is_asked(question):
    assert asked(question, "--no-image", "--strategy", "small_direct")["question"] == question


def test_arguments_of_a_locale_without_utf_8_are_understood():
    given = "红色的圆有几个?".encode().decode("ascii", "surrogateescape")
    assert asked(given, "--no-image", "--strategy", "small_direct")["question"] == "红色的圆有几个?"


def test_json_is_ascii(write_pair, tmp_path):
    pair = str(Path(write_pair()).rename(tmp_path / "红.yaml"))
    for words in (["ask", "红?", "--no-image", "--pair", pair], ["check", pair]):
        out = mai(*words, "--json").stdout
        assert out.isascii()
        assert json.loads(out)["pair"] == pair


def test_one_missing_model_is_reported_and_the_other_answers(broken_pair, image):
    answered = asked(image, RED, "--pair", broken_pair)
    assert answered["fallback"] == "small_direct"
    assert "nowhere" in answered["calls"][1]["error"]


def test_a_failed_run_is_exit_code_1_and_debug_shows_where(broken_pair):
    words = ["ask", "Is it?", "--no-image", "--pair", broken_pair, "--strategy", "large_direct"]
    result = mai(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "There is no model folder" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    result = mai(*words, "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "MAIError" in result.stderr
    done = mai("ask", "no-such-image.png", "Is it red?", "--debug")
    assert done.exit_code == 2
    assert "Traceback" in done.stderr


def test_pairs_lists_what_there_is():
    assert "qwen3-vl-2b-8b" in mai("pairs").stdout
    (demo,) = [pair for pair in json.loads(mai("pairs", "--json").stdout) if pair["name"] == "demo"]
    assert set(demo) == {"name", "small", "large", "backend", "description"}


def test_check_says_that_a_pair_works():
    shown = mai("check").stdout
    assert "The pair demo can be used." in shown
    assert "by the attention of the large model, layer 2." in shown
    checked = json.loads(mai("check", "demo", "--json").stdout)
    assert checked["ok"] is True
    for model in checked["models"]:
        assert model["error"] is None
        assert model["answer"]
        assert model["load_seconds"] >= 0
        assert model["answer_seconds"] > 0


def test_check_says_what_is_missing(broken_pair, tmp_path):
    result = mai("check", broken_pair, "--json")
    assert result.exit_code == 1
    small, large = json.loads(result.stdout)["models"]
    assert small["error"] is None
    assert "There is no model folder" in large["error"]
    (tmp_path / "no.yaml").write_text("small: {model: x}\n")
    result = mai("check", str(tmp_path / "no.yaml"))
    assert result.exit_code == 2
    assert "the key 'large' is missing" in result.stderr


@pytest.mark.parametrize(
    ("keys", "code", "said"),
    [
        ({"selector": "small", "sparse": {"layer": 1}}, 0, ("small", 1, None)),
        (
            {"selector": {"model": "demo:large"}, "sparse": {"layer": 3}},
            0,
            ("selector", 3, None),
        ),
        ({"sparse": {"layer": 99}}, 0, (None, None, "has no layer 99")),
        ({"selector": {"model": "./nowhere"}}, 1, (None, None, "There is no model folder")),
    ],
)
def test_check_says_whose_attention_sparse_transfer_selects_by_or_why_none(
    write_pair, keys, code, said
):
    pair, (by, layer, error) = write_pair(**keys), said
    result = mai("check", pair, "--json")
    checked = json.loads(result.stdout)
    assert (result.exit_code, checked["ok"]) == (code, code == 0)
    sparse = checked["sparse_transfer"]
    assert (sparse["by"], sparse["layer"]) == (by, layer)
    assert (error or "") in (sparse["error"] or "")
    shown = " ".join(mai("check", pair).stdout.split())
    assert ("Sparse transfer cannot be used: " in shown) == bool(error)
