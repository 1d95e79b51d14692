import pytest
from fakes import PROMPTS, models
from langchain_core.messages import HumanMessage
from langgraph.cache.memory import InMemoryCache
from PIL import Image

from langgraph_mai import create_mai, create_strategy
from langgraph_mai.graph import STRATEGIES


@pytest.fixture
def run(run):
    return lambda graph, **given: run(graph, given)


@pytest.fixture
def cached():
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, cache=InMemoryCache())
    return graph, lambda: len(small.calls) + len(large.calls)


def draw(path, color):
    Image.new("RGB", (40, 40), color).save(path)
    return str(path)


def test_equal_content_is_asked_once(cached, run, tmp_path):
    graph, calls = cached
    first, copy = (draw(tmp_path / name, "red") for name in ("first.png", "copy.png"))
    expected = run(graph, question="Is it red?", images=[first])
    assert calls() == 4
    again = run(graph, question="Is it red?", images=[copy])
    block = {"type": "image_url", "image_url": {"url": first}}
    message = HumanMessage([block, {"type": "text", "text": "Is it red?"}])
    as_message = run(graph, messages=[message])
    assert calls() == 4
    assert again["calls"] == expected["calls"] == as_message["calls"]


def test_what_differs_is_asked_again(cached, run, tmp_path):
    graph, calls = cached
    red, blue = (draw(tmp_path / f"{color}.png", color) for color in ("red", "blue"))
    questions = [
        {"question": "Is it red?"},
        {"question": "Is it red?", "images": [red]},
        {"question": "Is it red?", "images": [blue]},
        {"question": "Is it red?", "images": [red, blue]},
        {"question": "Is it round?", "images": [red]},
        {"question": "Is it red?", "images": [red], "answer_type": "short_text"},
    ]
    for number, question in enumerate(questions, start=1):
        run(graph, **question)
        assert calls() == 4 * number


def test_another_picture_under_the_same_path_is_asked_again(cached, run, tmp_path):
    graph, calls = cached
    run(graph, question="Is it red?", images=[draw(tmp_path / "a.png", "red")])
    run(graph, question="Is it red?", images=[draw(tmp_path / "a.png", "blue")])
    assert calls() == 8


def test_failed_calls_are_tried_again(cached, run):
    small, large = models("direct")
    graph = create_mai(small, large, prompts=PROMPTS, cache=InMemoryCache())
    small.script["direct"] = RuntimeError("busy")
    assert run(graph, question="Is it red?")["fallback"] == "large_direct"
    small.script["direct"] = "yes"
    assert run(graph, question="Is it red?")["fallback"] is None
    assert (len(small.calls), len(large.calls)) == (2, 1)


def test_graphs_share_a_cache_only_where_they_ask_the_same(run):
    cache = InMemoryCache()
    small, large = models("transferred")
    run(create_mai(small, large, prompts=PROMPTS, cache=cache), question="Is it red?")
    other = create_mai(small, large, prompts=PROMPTS, cache=cache, transfer=str.upper)
    run(other, question="Is it red?")
    assert small.styles == ["direct", "reason"]
    assert large.styles == ["direct", "transfer", "transfer"]


def test_transfers_share_a_call_only_where_they_hand_over_the_same(run):
    cache = InMemoryCache()
    answers = []
    for number in range(12):
        small, large = models("transferred")
        large.script["transfer"] = lambda prompt: "yes" if "keep" in prompt else "no"

        # Made anew each time: the next function may come to lie at the same address.
        def transfer(_reasoning, word=("drop", "keep")[number % 2]):
            return word

        graph = create_mai(small, large, prompts=PROMPTS, cache=cache, transfer=transfer)
        answers.append(run(graph, question="Is it red?")["answer"])
        assert len(large.calls) == (2 if number == 0 else number == 1)
        del graph, transfer, small, large
    assert answers == ["no", "yes"] * 6


def test_strategies_can_share_a_cache(run):
    cache = InMemoryCache()
    small, large = models("transferred")
    counts = []
    for _ in range(2):
        for name in STRATEGIES:
            graph = create_strategy(name, small, large, prompts=PROMPTS, cache=cache)
            result = run(graph, question="Is it red?")
            alone = create_strategy(name, *models("transferred"), prompts=PROMPTS)
            assert result["answer"] == run(alone, question="Is it red?")["answer"]
        counts.append(len(small.calls) + len(large.calls))
    assert counts[0] == counts[1]
