"""`mai ask --transfer sparse`: what is transferred, how it is shown, and what cannot be asked."""

import io
import json

import pytest
from evaluations import mai
from pages import ROOT
from rich.console import Console

from langgraph_mai.tools.rendering import reasoning_panels

SQUARES = str(ROOT / "demo" / "pictures" / "squares.png")
ASKED = ("ask", SQUARES, "How many squares can you see in the picture?")


def last_call(*words: str) -> dict:
    done = mai(*ASKED, *words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["calls"][-1]


def selected(*words: str) -> dict:
    return last_call("--transfer", "sparse", *words)["selection"]


def how(selection: dict) -> tuple:
    return tuple(selection[key] for key in ("keep", "layer", "share"))


def test_what_is_selected_is_in_the_json():
    call, full = last_call("--transfer", "sparse"), last_call()
    selection = call["selection"]
    assert 0 < selection["kept_tokens"] < selection["reasoning_tokens"]
    assert 0.8 <= selection["reached"] < 0.9
    assert how(selection) == ("attention", 2, 0.8)
    assert "selection" not in full
    assert call["input_tokens"] < full["input_tokens"] <= selection["input_tokens"]
    # The whole share is full transfer.
    whole = last_call("--transfer", "sparse", "--share", "1")
    assert whole["selection"]["text"] == whole["selection"]["reasoning"]
    assert (whole["text"], whole["input_tokens"]) == (full["text"], full["input_tokens"])


def test_options_count_before_the_pairs_own_settings(write_pair):
    selection = selected("--layer", "3", "--share", "0.5", "--keep", "last")
    assert how(selection) == ("last", 3, 0.5)
    assert selection["reasoning"].endswith(selection["text"])
    pair = ("--pair", write_pair(sparse={"layer": 3, "share": 0.6, "keep": "sentences"}))
    assert how(selected(*pair)) == ("sentences", 3, 0.6)
    assert how(selected(*pair, "--layer", "1")) == ("sentences", 1, 0.6)
    assert "selection" not in last_call(*pair)


@pytest.mark.parametrize("selector", ["small", {"model": "demo:large"}])
def test_the_pairs_selector_selects(write_pair, selector):
    selection = selected("--pair", write_pair(selector=selector))
    # The large model's copy selects as it does; the small one otherwise.
    assert (selection["spans"] == selected()["spans"]) == (selector != "small")


def test_a_selector_makes_up_for_a_model_that_gives_no_attention(write_pair, server):
    from chat_servers import answers

    server.otherwise = answers("2")
    large = {"model": "m", "backend": "server", "base_url": server.url, "retries": 0}
    done = mai(*ASKED, "--pair", write_pair(large=large), "--transfer", "sparse")
    assert done.exit_code == 2
    assert "the large model (ChatServer) does not give: name a model that does" in done.stderr
    assert server.requests == []
    selection = selected("--pair", write_pair(large=large, selector={"model": "demo:large"}))
    assert selection["kept_tokens"] > 0
    read = server.requests[-1]["body"]["messages"][-1]["content"][-1]["text"]
    assert selection["text"] in read


SPARSE = ("--transfer", "sparse")
REFUSED = [
    (["--transfer", "half"], "--transfer is full or sparse, not 'half'."),
    (["--layer", "2"], "--layer is for sparse transfer: add --transfer sparse"),
    (["--share", "0.5", "--transfer", "full"], "--share is for sparse transfer"),
    (["--keep", "last"], "--keep is for sparse transfer"),
    ([*SPARSE, "--share", "0"], "--share cannot be 0.0: Input should be"),
    ([*SPARSE, "--share", "nan"], "--share cannot be nan: Input should be"),
    ([*SPARSE, "--layer", "0"], "--layer cannot be 0: Input should be"),
    ([*SPARSE, "--layer", "1", "--layer", "2"], "ask transfers in one way"),
    ([*SPARSE, "--keep", "best"], "--keep cannot be best: Input should be"),
    ([*SPARSE, "--strategy", "small_direct"], "transfers a reasoning: leave out --transfer"),
    ([*SPARSE, "--strategy", "best"], "The strategy 'best' is unknown"),
    ([*SPARSE, "--layer", "9"], "has no layer 9: its layers are 1 to 4"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_what_cannot_be_asked_is_one_sentence_and_exit_code_2(words, sentence):
    done = mai(*ASKED, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "shapes", *SPARSE, "--layer", "3", "--layer", "9"),
        ("attention", "shapes", "--limit", "1", "--layer", "9"),
        ("attention", "shapes", "--limit", "1", "--layer", "9", "--scores"),
    ],
)
def test_a_layer_that_is_not_there_is_refused_before_anything_is_asked(words, tmp_path):
    done = mai(*words, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert "has no layer 9: its layers are 1 to 4" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_selector_that_is_not_there_is_named_before_anything_is_asked(write_pair):
    done = mai(*ASKED, "--pair", write_pair(selector={"model": "/nowhere/model"}), *SPARSE)
    assert done.exit_code == 2
    assert "There is no model folder '/nowhere/model'" in done.stderr


# What people see


def shown(text: str, *spans: tuple[int, int], color: bool = False, **changed) -> str:
    """The frame of a reasoning of which these spans were transferred."""
    selection = {"keep": "attention", "layer": 22, "reached": 0.81, "kept_tokens": 3}
    selection |= {"reasoning_tokens": 7, "reasoning": text, "spans": spans} | changed
    calls = [
        {"role": "small", "style": "reason", "text": text},
        {"role": "small", "style": "transfer", "text": "4", "selection": selection},
    ]
    out = io.StringIO()
    colors = {"force_terminal": True, "color_system": "standard"} if color else {}
    console = Console(file=out, width=90, highlight=False, no_color=not color, **colors)
    for panel in reasoning_panels(calls, console):
        console.print(panel)
    return out.getvalue()


def test_transferred_words_are_in_brackets_or_in_color():
    text = "nonsense first\nrow 1 red = 1\nAnswer: 4"
    first, *inner, last = shown(text, (3, 9), (14, 21), reasoning=text[15:]).splitlines()
    assert "small reason" in first
    assert [line[2:-2].rstrip() for line in inner] == [
        "nonsense first",
        "row [1 red] = 1",
        "[Answer:] 4",
    ]
    assert "transferred: 3 of 7 tokens, 81% of the attention at layer 22" in last
    before, _, behind = shown("row 1 red = 1", (6, 9), color=True).partition("red")
    assert before.endswith("\x1b[1;2;32m")
    assert behind.startswith("\x1b[0m")
    other = shown("row 1", keep="last")
    assert "transferred: 3 of 7 tokens (keep: last), 81% of the attention at layer 22" in other
    assert "transferred" not in shown("row 1", reasoning="of another call")


def test_ask_shows_them():
    page = mai(*ASKED, *SPARSE, "--show-reasoning").stdout
    assert "transfer, 34 of 53 tokens" in page
    assert "transferred: 34 of 53 tokens, 81% of the attention at layer 2" in page
    assert "[" in page
