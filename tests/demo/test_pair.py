"""The trained pair that the package carries, through the graph, on questions it never saw."""

from functools import partial
from random import Random

import pytest

from langgraph_mai import CallCache, create_mai, create_strategy, load_pair
from langgraph_mai.demo.held_out import held_out
from langgraph_mai.demo.questions import KINDS, Question, Target
from langgraph_mai.demo.scenes import COLORS, draw, sample_chart, sample_grid
from langgraph_mai.demo.solutions import solve
from langgraph_mai.demo.wordings import WORDINGS

TEST_SEED = 4_711  # neither trained on nor reported


@pytest.fixture(scope="module")
def pair():
    return load_pair("demo")


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return held_out(tmp_path_factory.mktemp("held-out"), count=len(KINDS) * 6, seed=TEST_SEED)


@pytest.fixture(scope="module")
def cache():
    return CallCache()


def asked(item):
    question = item.question
    return {
        "question": question.text,
        "images": [item.image],
        "choices": list(question.choices),
        "answer_type": question.answer_type,
    }


def run(graph, items):
    return graph.batch([asked(item) for item in items], {"max_concurrency": 16})


def test_the_cascade_answers_the_world_and_takes_every_route(pair, items, cache):
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts, cache=cache)
    results = run(mai, items)
    right = [r["answer"] == item.answer for r, item in zip(results, items, strict=True)]
    routes = [result["route"] for result in results]
    assert sum(right) / len(right) > 0.85
    assert set(routes) == {"direct", "reasoned", "transferred"}
    assert routes.count("direct") / len(routes) > 0.5
    assert all(result["fallback"] is None for result in results)


def test_reasoning_is_long_and_helps_the_small_model(pair, items, cache):
    models = {"small": pair.small, "large": pair.large, "prompts": pair.prompts}
    strategy = partial(create_strategy, **models, cache=cache)
    direct, reason = (run(strategy(name), items) for name in ("small_direct", "small_reason"))
    right = [
        sum(r["answer"] == item.answer for r, item in zip(results, items, strict=True))
        for results in (direct, reason)
    ]
    tokens = [sum(r["calls"][0]["output_tokens"] for r in results) for results in (direct, reason)]
    assert right[0] < right[1]
    assert tokens[1] > 10 * tokens[0]


@pytest.mark.parametrize(
    ("wordings", "fields"),
    [
        ("exist", {"one": "red star", "many": "red stars"}),
        ("attribute_color", {"one": "triangle"}),
        ("bar_value", {"first": "green"}),
        ("bar_highest", {}),
    ],
)
def test_ten_wordings_of_a_question_have_one_answer(pair, tmp_path, wordings, fields):
    graph = create_strategy("large_reason", pair.small, pair.large, prompts=pair.prompts)
    question, path = scene_for(wordings, tmp_path)
    texts = [wording.format(**fields) for wording in WORDINGS[wordings]]
    results = graph.batch([{"question": text, "images": [path]} for text in texts])
    right = [result["answer"].lower() == question for result in results]
    assert sum(right) >= 9, dict(zip(texts, [r["answer"] for r in results], strict=True))


def scene_for(wordings, folder):
    """A picture on which the question has a clear answer, and that answer."""
    rng = Random(12)
    while True:
        if wordings.startswith("bar"):
            scene = sample_chart(rng)
            kind = "bar_value" if wordings == "bar_value" else "bar_highest"
            values = sorted((bar.value for bar in scene.bars), reverse=True)
            question = Question(kind, "", bars=(COLORS.index("green"),) * (kind == "bar_value"))
            if values[0] == values[1] or COLORS.index("green") not in {b.color for b in scene.bars}:
                continue
        else:
            scene = sample_grid(rng)
            target = Target(0, 3) if wordings == "exist" else Target(shape=2)
            question = Question("exist" if wordings == "exist" else "attribute", "", target=target)
            meant = sum(map(target.matches, scene.cells))
            if meant != 1:
                continue
        path = folder / "scene.png"
        draw(scene, rng).save(path)
        return solve(scene, question).direct, str(path)


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of France?",
        "图中有几只猫",
        "!!??",
        "a" * 900,
        "Why?\n\nBecause.",
        "7",
    ],
)
def test_text_outside_the_world_does_not_crash(pair, items, text):
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts, require_images=False)
    for images in ([], [items[0].image], [items[0].image, items[1].image]):
        result = mai.invoke({"question": text, "images": images})
        assert isinstance(result["answer"], str)


def test_a_batch_of_questions_gives_the_answers_of_single_calls(pair, items):
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts)
    single = [mai.invoke(asked(item)) for item in items[:11]]
    together = mai.batch([asked(item) for item in items[:11]])
    assert [r["answer"] for r in single] == [r["answer"] for r in together]


def test_both_checkpoints_together_are_at_most_10_mb(demo_weights):
    size = sum(path.stat().st_size for path in demo_weights.rglob("*") if path.is_file())
    assert size <= 10_000_000
