"""The page: nothing from outside, and what models wrote is shown, not followed."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from attention_readings import reading
from PIL import Image

from langgraph_mai.benchmarks.attention.figures import AttentionFigures
from langgraph_mai.benchmarks.attention.tables import QUESTIONS, page

EVIL = "<script>alert(1)</script> </script><b onmouseover=x> red & blue"


class Found(HTMLParser):
    """Elements with their attributes, and the text of the shown reasonings."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.tokens, self.inside = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "div" and ("class", "reasoning") in attrs:
            self.tokens.append([])
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "div"

    def handle_data(self, data):
        if self.inside:
            self.tokens[-1].append(data)


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    image = tmp_path_factory.mktemp("images") / "red.png"
    Image.new("RGB", (8, 8), "red").save(image)
    words = len(EVIL.split())
    heads = np.arange(2 * 1 * words).reshape(2, 1, words) / 100
    readings = [
        reading(f"q{number}", source, EVIL, heads, images=(str(image),), text="<i>?</i>")
        for number in range(20)
        for source in ("small", "large")
    ]
    return page(AttentionFigures(readings, 0.8), "<Title>", 2)


def test_it_needs_nothing_else_and_shows_what_was_written_as_it_is(html):
    found = Found(html)
    links = [attrs[name] for _, attrs in found.tags for name in ("src", "href") if name in attrs]
    assert links
    assert all(link.startswith("data:image/") for link in links)
    assert not re.search(r"https?://|@import|url\(", html)
    assert "".join(found.tokens[0]) == EVIL
    assert "i" not in {tag for tag, _ in found.tags}
    assert "&lt;Title&gt;" in html
    assert sum(tag == "script" for tag, _ in found.tags) == 2 * QUESTIONS + 1
    assert not any("onmouseover" in attrs for _, attrs in found.tags)


def test_the_first_layer_is_shaded_and_every_layer_is_there_for_the_script(html):
    spans = [attrs for tag, attrs in Found(html).tags if tag == "span" and "title" in attrs]
    words = len(EVIL.split())
    shades = [float(re.search(r", ([\d.]+)\)", one["style"])[1]) for one in spans[:words]]
    assert (shades, shades[-1]) == (sorted(shades), 0.75)
    assert spans[words - 1].get("class") == "kept"
    data = re.findall(r'class="reading">(.*?)</script>', html)
    assert len(data) == 2 * QUESTIONS
    read = json.loads(data[0])
    assert len(read["weights"]) == len(read["kept"]) == len(read["totals"]) == 2
    assert sum(read["weights"][0]) == pytest.approx(1000, abs=4)
