"""`mai ask --transfer sparse`: what is transferred, how it is shown, and what cannot be asked."""

import io
import json
from itertools import pairwise

import pytest
import yaml
from pages import ROOT
from rich.console import Console
from typer.testing import CliRunner

from langgraph_mai.tools.cli import app
from langgraph_mai.tools.rendering import reasoning_panels

SQUARES = str(ROOT / "demo" / "pictures" / "squares.png")
ASKED = (SQUARES, "How many squares can you see in the top row?")


def mai(*words: str):
    return CliRunner().invoke(app, ["ask", *ASKED, *words])


def transfer(*words: str):
    done = mai("--transfer", "sparse", *words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["calls"][-1]


def test_the_selection_is_in_the_json():
    call = transfer()
    assert call["error"] is None
    selection = call["selection"]
    assert 0 < selection["kept_tokens"] < selection["reasoning_tokens"]
    assert 0.8 <= selection["reached"] < 0.9
    assert (selection["keep"], selection["layer"], selection["share"]) == ("attention", 2, 0.8)
    full = json.loads(mai("--json").stdout)["calls"][-1]
    assert "selection" not in full
    assert call["input_tokens"] < full["input_tokens"] <= selection["input_tokens"]


def test_layer_share_and_keep_can_be_chosen():
    selection = transfer("--layer", "3", "--share", "0.5", "--keep", "last")["selection"]
    assert (selection["keep"], selection["layer"], selection["share"]) == ("last", 3, 0.5)
    assert selection["reasoning"].endswith(selection["text"])


def test_the_whole_share_is_full_transfer():
    call, full = transfer("--share", "1"), json.loads(mai("--json").stdout)["calls"][-1]
    assert call["selection"]["text"] == call["selection"]["reasoning"]
    assert (call["text"], call["input_tokens"]) == (full["text"], full["input_tokens"])


@pytest.fixture
def pair_file(tmp_path):
    def write(**keys):
        pair = {
            "prompts": "demo",
            "small": {"model": "demo:small"},
            "large": {"model": "demo:large"},
        }
        path = tmp_path / "pair.yaml"
        path.write_text(yaml.safe_dump(pair | keys))
        return str(path)

    return write


def test_the_pairs_own_settings_count_where_none_are_given(pair_file):
    pair = pair_file(sparse={"layer": 3, "share": 0.6, "keep": "sentences"})
    selection = transfer("--pair", pair)["selection"]
    assert (selection["keep"], selection["layer"], selection["share"]) == ("sentences", 3, 0.6)
    selection = transfer("--pair", pair, "--layer", "1")["selection"]
    assert (selection["keep"], selection["layer"], selection["share"]) == ("sentences", 1, 0.6)
    assert "selection" not in json.loads(mai("--pair", pair, "--json").stdout)["calls"][-1]


@pytest.mark.parametrize("selector", ["small", {"model": "demo:large"}])
def test_the_pairs_selector_selects(pair_file, selector):
    selection = transfer("--pair", pair_file(selector=selector))["selection"]
    own = transfer()["selection"]
    # The large model's copy selects as it does; the small one otherwise.
    assert (selection["spans"] == own["spans"]) == (selector != "small")


def test_a_selector_makes_up_for_a_model_that_gives_no_attention(pair_file, server):
    from chat_servers import answers

    server.otherwise = answers("2")
    large = {"model": "m", "backend": "server", "base_url": server.url, "retries": 0}
    done = mai("--pair", pair_file(large=large), "--transfer", "sparse")
    assert done.exit_code == 2
    assert "the large model (ChatServer) does not give: name a model that does" in done.stderr
    assert server.requests == []
    pair = pair_file(large=large, selector={"model": "demo:large"})
    call = transfer("--pair", pair)
    assert call["selection"]["kept_tokens"] > 0
    read = server.requests[-1]["body"]["messages"][-1]["content"][-1]["text"]
    assert call["selection"]["text"] in read


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--transfer", "half"], "--transfer is full or sparse, not 'half'."),
        (["--layer", "2"], "--layer is for sparse transfer: add --transfer sparse"),
        (["--share", "0.5", "--transfer", "full"], "--share is for sparse transfer"),
        (["--keep", "last"], "--keep is for sparse transfer"),
        (["--transfer", "sparse", "--share", "0"], "--share cannot be 0.0: Input should be"),
        (["--transfer", "sparse", "--share", "nan"], "--share cannot be nan: Input should be"),
        (["--transfer", "sparse", "--layer", "0"], "--layer cannot be 0: Input should be"),
        (["--transfer", "sparse", "--keep", "best"], "--keep cannot be best: Input should be"),
        (
            ["--transfer", "sparse", "--strategy", "small_direct"],
            "The strategy small_direct transfers no reasoning: leave out --transfer",
        ),
        (["--transfer", "sparse", "--strategy", "best"], "The strategy 'best' is unknown"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_exit_code_2(words, sentence):
    done = mai(*words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


# What people see


def call(style, text, **others):
    return {"role": "small", "style": style, "text": text, **others}


def sparse(text, *spans, keep="attention", reached=0.81):
    return {
        "keep": keep,
        "layer": 22,
        "reached": reached,
        "kept_tokens": 3,
        "reasoning_tokens": 7,
        "reasoning": text,
        "spans": [list(span) for span in spans],
    }


def shown(calls, *, colour=False, width=40):
    out = io.StringIO()
    colours = {"force_terminal": True, "color_system": "standard"} if colour else {}
    console = Console(file=out, width=width, highlight=False, no_color=not colour, **colours)
    for panel in reasoning_panels(calls, console):
        console.print(panel)
    return out.getvalue()


def lines(page):
    return [line.strip("│ ").rstrip() for line in page.splitlines()[1:-1]]


def test_words_that_were_handed_over_are_underlined():
    text = "row 1 red = 1\nAnswer: 4"
    calls = [
        call("reason", text),
        call("transfer", "4", selection=sparse(text, (3, 9), (14, 21))),
    ]
    page = shown(calls, width=70)
    inner = [line[2:-2].rstrip() for line in page.splitlines()[1:-1]]
    assert inner == ["row 1 red = 1", "    ^ ^^^", "Answer: 4", "^^^^^^^"]
    assert "small reason" in page.splitlines()[0]
    assert "transferred: 3 of 7 tokens, 81% of the attention at layer 22" in page.splitlines()[-1]


def test_a_terminal_with_colours_shows_them_in_colour():
    text = "row 1 red = 1"
    page = shown(
        [call("reason", text), call("transfer", "4", selection=sparse(text, (6, 9)))],
        colour=True,
    )
    assert "^" not in page
    before, _, behind = page.partition("red")
    assert before.endswith("\x1b[1;2;32m")
    assert behind.startswith("\x1b[0m")


@pytest.mark.parametrize("words", [["one", "two", "three", "four"] * 6, ["一二", "三四五"] * 12])
def test_marks_stay_below_their_words_where_lines_are_wrapped(words):
    from rich.cells import cell_len

    text = " ".join(words)
    spans, place = [], 0
    for number, word in enumerate(words):
        if number % 3 == 0:
            spans.append((place, place + len(word)))
        place += len(word) + 1
    page = shown([call("reason", text), call("transfer", "4", selection=sparse(text, *spans))])
    marked = []
    inner = [line[2:-2].rstrip() for line in page.splitlines()[1:-1]]
    for line, below in pairwise(inner):
        if set(below) <= {"^", " "}:
            cells = "".join(letter + "\0" * (cell_len(letter) - 1) for letter in line)
            under = "".join(
                letter if mark == "^" else " "
                for letter, mark in zip(cells, below.ljust(len(cells)), strict=True)
            )
            marked += under.replace("\0", "").split()
    assert marked == [text[start:end] for start, end in spans]


def test_a_reasoning_that_was_cut_is_marked_where_it_was_read():
    text = "nonsense first\nrow 1 red = 1"
    calls = [
        call("reason", text),
        call("transfer", "4", selection=sparse("row 1 red = 1", (0, 3))),
    ]
    page = shown(calls, width=70)
    inner = [line[2:-2].rstrip() for line in page.splitlines()[1:-1]]
    assert inner == ["nonsense first", "row 1 red = 1", "^^^"]


def test_another_way_to_choose_is_named():
    text = "row 1 red = 1"
    page = shown(
        [call("reason", text), call("transfer", "4", selection=sparse(text, keep="last"))],
        width=90,
    )
    assert "transferred: 3 of 7 tokens (keep: last), 81% of the attention at layer 22" in page


def test_full_transfer_is_shown_as_ever():
    page = shown([call("reason", "row 1"), call("transfer", "4")])
    assert lines(page) == ["row 1"]
    assert "transferred" not in page


def test_ask_shows_them():
    page = mai("--transfer", "sparse", "--show-reasoning").stdout
    assert "transfer" in page
    assert "32 of 53 tokens" in page
    assert "transferred: 32 of 53 tokens, 80% of the attention at layer 2" in page
    assert "^" in page


@pytest.mark.parametrize(
    "words",
    [
        ("ask", SQUARES, "How many?", "--transfer", "sparse", "--layer", "9"),
        ("evaluate", "shapes", "--transfer", "sparse", "--layer", "3", "--layer", "9"),
        ("attention", "shapes", "--limit", "1", "--layer", "9"),
        ("attention", "shapes", "--limit", "1", "--layer", "9", "--scores"),
    ],
)
def test_a_layer_that_is_not_there_is_refused_before_anything_is_asked(words, tmp_path):
    place = () if words[0] == "ask" else ("--out", str(tmp_path))
    done = CliRunner().invoke(app, [*words, *place])
    assert done.exit_code == 2
    assert "has no layer 9: its layers are 1 to 4" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_selector_that_is_not_there_is_named_before_anything_is_asked(tmp_path):
    pair = tmp_path / "pair.yaml"
    pair.write_text(
        "prompts: demo\nsmall: {model: demo:small}\nlarge: {model: demo:large}\n"
        "selector: {model: /nowhere/model}\n"
    )
    done = mai("--pair", str(pair), "--transfer", "sparse")
    assert done.exit_code == 2
    assert "There is no model folder '/nowhere/model'" in done.stderr
