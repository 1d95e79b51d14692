import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from questions import benchmark, question

from langgraph_mai.benchmarks.metrics import METRICS, PROTOCOLS, grades, score

ABCD = ("north", "south", "east", "west")


def asked(number, answer, kind="yes_no", choices=(), **group):
    text = "Is there a cat in the image?" if kind == "yes_no" else "Which is it?"
    return question(number, text, answers=(answer,), choices=choices, answer_type=kind, group=group)


def made(metric, *questions):
    return benchmark(*questions, metric=metric)


def values(scores, protocol, **group):
    return {
        one.metric: one.value for one in scores if one.protocol == protocol and one.group == group
    }


def figure(scores, metric):
    """Value and number of questions by protocol and part."""
    return {
        (one.protocol, *one.group.values()): (one.value, one.questions)
        for one in scores
        if one.metric == metric
    }


POPE = made(
    "pope",
    *(
        asked(f"{split}-{number}", "yes" if number % 2 else "no", split=split)
        for split in ("random", "popular")
        for number in range(4)
    ),
)


def test_texts_are_paired_with_questions_by_id_whatever_their_order():
    texts = {one.id: one.answers[0] for one in POPE.questions}
    shuffled = dict(reversed(texts.items())) | {"of another set": "yes"}
    assert score(POPE, shuffled) == score(POPE, texts)
    for protocol in PROTOCOLS:
        assert values(score(POPE, texts), protocol)["accuracy"] == 1.0
    del texts["random-0"]  # a question without a text is left out
    assert figure(score(POPE, texts), "accuracy")[("typed",)] == (1.0, 7)
    assert "random-0" not in grades(POPE, texts)["typed"]


def test_pope_is_scored_by_split_and_overall():
    says = {"random": "yes", "popular": "no"}
    scores = score(POPE, {one.id: says[one.group["split"]] for one in POPE.questions})
    names = ("accuracy", "precision", "recall", "yes_ratio", "unread", "f1")
    # The model that always says no: no division by zero, and no value that would hide it.
    for group, expected in [
        ({"split": "random"}, (0.5, 0.5, 1.0, 1.0, 0.0, pytest.approx(2 / 3))),
        ({"split": "popular"}, (0.5, None, 0.0, 0.0, 0.0, 0.0)),
        ({}, (0.5, 0.5, 0.5, 0.5, 0.0, 0.5)),
    ]:
        assert values(scores, "typed", **group) == dict(zip(names, expected, strict=True))
    # An abstention is neither yes nor no.
    figures = values(score(POPE, {one.id: "<think>yes or no" for one in POPE.questions}), "typed")
    assert [figures[name] for name in ("accuracy", "recall", "yes_ratio", "unread")] == [0, 0, 0, 1]


WET = asked(1, "A", "choice", ("Wet", "Dry"))
CHART = asked(1, "47", "short_text")


@pytest.mark.parametrize(
    ("metric", "asks", "text", "right", "unread"),
    [
        ("realworldqa", WET, "", 0, 1),
        ("realworldqa", WET, "???", 0, 1),
        ("realworldqa", WET, "B", 0, 0),
        ("realworldqa", WET, "Wet.", 1, 0),
        ("chartqa", CHART, "Looking at the chart, sales grew to 49 in the end.", 1, 0),
    ],
)
def test_a_broken_run_is_told_from_a_weak_model(metric, asks, text, right, unread):
    figures = values(score(made(metric, asks), {"1": text}), "typed")
    assert figures.pop("unread") == unread
    assert list(figures.values()) == [right]


def test_open_questions_of_mmmu_are_no_choices_and_charts_have_a_tolerance():
    for metric, text, answer, right in [
        ("mmmu", "The net income is 1,234.", "1234", 1),
        ("mmmu", "Area A is the larger one", "24", 0),
        ("mmmu", "24", "24.0", 1),
        ("chartqa", "95", "100", 1),
        ("chartqa", "105", "100", 1),
        ("chartqa", "94.9", "100", 0),
        ("chartqa", "105.1", "100", 0),
    ]:
        graded = grades(made(metric, asked(1, answer, "short_text")), {"1": text})
        assert graded["typed"] == {"1": right}
        if metric == "chartqa":
            assert {one["1"] for one in graded.values()} == {right}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refusal_never_earns_a_point(protocol):
    # MMMU's script finds the option "z" in "recognize".
    options = tuple("wxyz") if protocol == "typed" else ABCD
    bench = made("mmmu", *(asked(n, "ABCD"[n % 4], "choice", options) for n in range(40)))
    texts = {one.id: "Sorry, I can't recognize the image" for one in bench.questions}
    assert values(score(bench, texts), protocol)["accuracy"] == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_without_texts_nothing_has_a_value(metric):
    for scores in (score(made(metric), {}), score(made(metric, asked(1, "yes", split="a")), {})):
        assert scores
        assert all(one.value is one.low is one.high is None for one in scores)
        assert all(one.questions == 0 for one in scores)
    with pytest.raises(ValueError, match="'bleu' is unknown; use one of accuracy, mmmu"):
        score(made("bleu"), {})


def test_parts_of_a_benchmark_stand_beside_the_whole():
    subjects = ("Art", "Art", "Math")
    questions = [
        asked(number, "ABC"[number], "choice", ABCD, subject=subject)
        for number, subject in enumerate(subjects)
    ]
    found = figure(score(made("mmmu", *questions), {"0": "A", "1": "(C)", "2": "C"}), "accuracy")
    for protocol in PROTOCOLS:
        assert found[(protocol,)] == (pytest.approx(2 / 3), 3)
        assert (found[protocol, "Art"], found[protocol, "Math"]) == ((0.5, 2), (1.0, 1))
    # VLMEvalKit leaves out open questions of RealWorldQA.
    questions = [asked(1, "A", "choice", ("left", "right")), asked(2, "2", "number")]
    found = figure(score(made("realworldqa", *questions), {"1": "A.", "2": "2."}), "accuracy")
    counts = {protocol: 1 if protocol == "vlmevalkit" else 2 for protocol in PROTOCOLS}
    assert found == {(protocol,): (1.0, count) for protocol, count in counts.items()}


def test_an_own_question_is_right_by_letter_or_by_words():
    own = made(
        "accuracy",
        asked(1, "B", "choice", ("left", "right")),
        asked(2, "a red star", "short_text"),
    )
    right, wrong = {"1": 1.0, "2": 1.0}, {"1": 0.0, "2": 0.0}
    assert grades(own, {"1": "b", "2": "A red star."}) == {"typed": right, "strict": right}
    said = {"1": "It is the right one.", "2": "**A red star**"}
    assert grades(own, said) == {"typed": right, "strict": wrong}


def rotated(index, answer_place, rotations):
    """A question of four options, shifted left by 0, 1, 2... places."""
    return [
        asked(
            index + k * 1_000_000,
            "ABCD"[(answer_place - k) % 4],
            "choice",
            ABCD[k:] + ABCD[:k],
            category="maps",
        )
        for k in range(rotations)
    ]


def test_a_circle_counts_where_every_rotation_is_right():
    bench = made("mmbench", *rotated(1, 2, 4), *rotated(2, 0, 4), *rotated(3, 1, 2))
    right = {one.id: one.answers[0] for one in bench.questions}
    scores = score(bench, right | {"2000002": "D"})
    accuracy, circular = (figure(scores, name) for name in ("accuracy", "circular_accuracy"))
    for protocol in PROTOCOLS:
        assert accuracy[protocol, "maps"] == (pytest.approx(9 / 10), 10)
        # Of question 3, only two of four rotations are in the set: nothing can be said of it.
        assert circular[protocol, "maps"] == (0.5, 2)
    del right["1000001"]  # without all its texts, a circle is left out
    assert figure(score(bench, right), "circular_accuracy")[("typed",)] == (1.0, 1)
    letters = score(made("mmbench", *rotated(7, 1, 4)), dict.fromkeys(right, "B"))
    assert figure(letters, "circular_accuracy")[("typed",)] == (None, 0)
    four = made("mmbench", *rotated(7, 1, 4))
    same_letter = values(score(four, {one.id: "B" for one in four.questions}), "typed")
    assert (same_letter["accuracy"], same_letter["circular_accuracy"]) == (0.25, 0.0)


TEXTS = st.sampled_from(["yes", "no", "Yes.", "No, it is not.", "", "perhaps", "<think>yes", "A"])


@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), TEXTS), max_size=12))
def test_every_value_lies_in_its_interval(pairs):
    bench = made("pope", *(asked(n, right, split="s") for n, (right, _) in enumerate(pairs)))
    for one in score(bench, {str(n): text for n, (_, text) in enumerate(pairs)}):
        if one.value is not None and one.low is not None:
            assert 0 <= one.low <= one.high <= 1
            assert one.low - 1e-9 <= one.value <= one.high + 1e-9
            assert not math.isnan(one.low)


def test_intervals_are_the_same_each_time_and_narrow_with_more_questions():
    def figures(count):
        bench = made("infovqa", *(asked(n, "2018", "short_text") for n in range(count)))
        said = {str(n): "2018" if n % 3 else "2019" for n in range(count)}
        return {
            one.metric: (one.low, one.value, one.high)
            for one in score(bench, said)
            if one.protocol in ("typed", "strict")
        }

    few, many = figures(30), figures(300)
    assert figures(30) == few
    for metric in ("anls", "accuracy"):
        assert few[metric][0] < few[metric][1] < few[metric][2]
        assert many[metric][2] - many[metric][0] < few[metric][2] - few[metric][0]
    # The share of right answers, by Wilson's formula: 20 of 30. (ANLS: 0.75 for 2019.)
    assert few["accuracy"] == pytest.approx((0.4878, 0.6667, 0.8077), abs=1e-4)


def test_a_figure_at_its_end_is_not_taken_for_certain():
    def interval(bench, said, protocol, metric):
        scores = score(bench, dict.fromkeys((q.id for q in bench.questions), said))
        return next(
            (one.low, one.value, one.high)
            for one in scores
            if (one.protocol, one.metric, one.group) == (protocol, metric, {})
        )

    low, value, high = interval(POPE, "no", "typed", "f1")
    assert low == value == 0 < 0.4 < high < 0.8
    info = made("infovqa", *(asked(n, "2018", "short_text") for n in range(8)))
    low, value, high = interval(info, "2018", "strict", "anls")
    assert 0.6 < low < 0.7 < value == high == 1
    # All the same, and neither right nor wrong: it could vary as much as right and wrong do.
    low, value, high = interval(info, "2019", "strict", "anls")
    assert low < 0.5 < value == 0.75 < 0.9 < high
