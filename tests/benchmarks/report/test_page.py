"""The page: it stands alone, and says first what there is to know."""

import re
from html import unescape

import pytest

from langgraph_mai.benchmarks.report import page as page_module
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.page import LEGEND, page
from langgraph_mai.benchmarks.report.tables import tables

from .conftest import cascade_result, reason_result, write_evaluation


@pytest.fixture
def html(ten):
    run = Evaluated.read(ten)
    return page([run], tables([run]), [{}])


def test_the_verdict_comes_first_and_its_box_says_the_same(html):
    assert html.index('class="verdict open"') < html.index("<dl>") < html.index("<table>")
    assert html.index("<table>") < html.index("Route direct")


@pytest.mark.parametrize(
    ("says", "style"),
    [("pays", "pays"), ("does not pay", "does-not-pay"), ("trades", "trades"), ("open", "open")],
)
def test_every_verdict_has_a_colour_of_its_own(ten, monkeypatch, says, style):
    from langgraph_mai.benchmarks.report.verdict import Verdict

    monkeypatch.setattr(page_module, "verdict", lambda _: Verdict(says, "So it is."))
    html = page([Evaluated.read(ten)], [], [{}])
    assert f'<p class="verdict {style}">So it is.</p>' in html
    colours = re.findall(r"\.verdict\.([a-z-]+) \{ background: (#\w+)", html)
    assert style in dict(colours)
    assert len({colour for _, colour in colours}) == len(colours)


def test_all_words_and_signs_are_explained(html):
    for words in ("S, E, R", "two-stage", "agreement wrong", "helped, harmed", "typed", "strict"):
        assert words in dict(LEGEND)
    for name, meaning in LEGEND:
        assert f"<dt>{name}</dt><dd>{meaning}</dd>" in unescape(html)


def test_the_page_says_what_it_was_made_of_and_with(tmp_path):
    results = [one(n) for n in range(10) for one in (cascade_result, reason_result)]
    folder = write_evaluation(
        tmp_path / "ten",
        results,
        record={
            "models": {
                "small": {"model": "tiny/S-2B", "weights": "0123456789abcdef", "revision": "main"},
                "large": {"model_name": "L-8B"},
            },
            "python": "3.12.1",
            "versions": {"langgraph-mai": "0.1.0"},
            "machine": {"processor": "A fast one", "cores": 8, "gpus": ["Big"], "system": "Linux"},
        },
    )
    html = page([Evaluated.read(folder)], [], [{}])
    for name, text in {
        "small model": "S-2B (revision main, weights 0123456789ab)",
        "large model": "L-8B",
        "questions": "10 about 2 pictures",
        "command": "mai evaluate ten",
        "versions": "python 3.12.1, langgraph-mai 0.1.0",
        "machine": "A fast one, 8 cores, Big, Linux",
    }.items():
        assert f"<dt>{name}</dt><dd>{text}</dd>" in html
    assert re.search(r"<dt>results of</dt><dd>\d{4}-\d\d-\d\d \d\d:\d\d UTC</dd>", html)


def test_what_is_not_known_is_not_there(html):
    assert "<dt>machine</dt>" not in html
    assert "<dt>versions</dt>" not in html
    assert "None" not in re.sub(r"<pre>.*?</pre>", "", html)


def test_long_words_break(html):
    assert "body { overflow-wrap: anywhere; }" in html
