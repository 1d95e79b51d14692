"""The page: it stands alone, and says first what there is to know."""

import re
from html import unescape
from itertools import pairwise

import pytest

from langgraph_mai.benchmarks.report import page as page_module
from langgraph_mai.benchmarks.report.cascade import Verdict
from langgraph_mai.benchmarks.report.economy import economy
from langgraph_mai.benchmarks.report.evaluated import Evaluated
from langgraph_mai.benchmarks.report.page import LEGEND, page
from langgraph_mai.benchmarks.report.plots import economy_plot, plots
from langgraph_mai.benchmarks.report.tables import tables

from .conftest import both, write_evaluation


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    run = Evaluated.read(write_evaluation(tmp_path_factory.mktemp("page") / "ten", both()))
    return page([run], tables([run], []), [plots(run)], economy_plot(economy([run])))


def test_it_holds_everything_runs_nothing_and_begins_with_the_verdict(html):
    places = map(html.index, ('class="verdict open"', "<dl>", "<table>", "Route direct"))
    assert all(one < other for one, other in pairwise(places))
    assert "Is number 9 &lt;red&gt;?" in html
    assert "&lt;b&gt;I looked&lt;/b&gt;" in html
    assert "<script" not in html
    # No reference to anything outside the page.
    references = set(re.findall(r'(?:src|href)="([a-z]+:[a-z/]+)', html))
    assert references == {"data:image/png", "data:image/jpeg"}
    for route in ("direct", "reasoned", "transferred"):
        assert f"Route {route}" in html
    assert "body { overflow-wrap: anywhere; }" in html  # long words break


def test_every_verdict_has_a_color_of_its_own(ten, monkeypatch):
    colors = []
    for says in ("pays", "does not pay", "trades", "open"):
        monkeypatch.setattr(page_module, "verdict", lambda *_, says=says: Verdict(says, "So."))
        html = page([Evaluated.read(ten)], [], [{}])
        style = says.replace(" ", "-")
        assert f'<p class="verdict {style}">So.</p>' in html
        found = dict(re.findall(r"\.verdict\.([a-z-]+) \{ background: (#\w+)", html))
        colors.append(found[style])
    assert len(set(colors)) == 4


def test_the_page_says_what_it_was_made_of_and_with(tmp_path):
    folder = write_evaluation(
        tmp_path / "ten",
        both(),
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
        "questions": "10 about 2 images",
        "command": "mai evaluate ten",
        "versions": "python 3.12.1, langgraph-mai 0.1.0",
        "machine": "A fast one, 8 cores, Big, Linux",
    }.items():
        assert f"<dt>{name}</dt><dd>{text}</dd>" in html
    assert re.search(r"<dt>results of</dt><dd>\d{4}-\d\d-\d\d \d\d:\d\d UTC</dd>", html)


def test_all_words_and_signs_are_explained_and_what_is_not_known_is_not_there(html):
    for words in ("S, E, R", "two-stage", "agreement wrong", "helped, harmed", "typed", "strict"):
        assert words in dict(LEGEND)
    for name, meaning in LEGEND:
        assert f"<dt>{name}</dt><dd>{meaning}</dd>" in unescape(html)
    assert "<dt>machine</dt>" not in html
    assert "<dt>versions</dt>" not in html
    assert "None" not in re.sub(r"<pre>.*?</pre>", "", html)
