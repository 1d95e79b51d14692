import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.benchmarks.metrics import PROTOCOLS, grades, outcomes, score
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion


def made(metric, *questions):
    return Benchmark(name=metric, questions=questions, prompts="default", metric=metric)


def asked(number, answer, kind="yes_no", choices=(), **group):
    return BenchmarkQuestion(
        id=str(number),
        question="Is there a cat in the image?" if kind == "yes_no" else "Which is it?",
        images=(),
        answers=(answer,),
        choices=choices,
        answer_type=kind,
        group=group,
    )


POPE = made(
    "pope",
    *(
        asked(f"{split}-{number}", "yes" if number % 2 else "no", split=split)
        for split in ("random", "popular")
        for number in range(4)
    ),
)


def values(scores, protocol, group=None):
    return {
        one.metric: one.value
        for one in scores
        if one.protocol == protocol and one.group == (group or {})
    }


def test_pairs_texts_with_questions_by_id_whatever_their_order():
    texts = {one.id: one.answers[0] for one in POPE.questions}
    shuffled = dict(reversed(texts.items())) | {"of another set": "yes"}
    assert score(POPE, shuffled) == score(POPE, texts)
    for protocol in PROTOCOLS:
        assert values(score(POPE, texts), protocol)["accuracy"] == 1.0


def test_a_question_without_text_is_left_out():
    texts = {one.id: one.answers[0] for one in POPE.questions[1:]}
    (accuracy,) = (
        one
        for one in score(POPE, texts)
        if (one.protocol, one.metric, one.group) == ("typed", "accuracy", {})
    )
    assert (accuracy.value, accuracy.questions) == (1.0, 7)
    assert "random-0" not in grades(POPE, texts)["typed"]


def test_pope_is_scored_by_split_and_overall():
    texts = {one.id: "yes" for one in POPE.questions if one.group["split"] == "random"}
    texts |= {one.id: "no" for one in POPE.questions if one.group["split"] == "popular"}
    scores = score(POPE, texts)
    assert values(scores, "typed", {"split": "random"}) == {
        "accuracy": 0.5,
        "precision": 0.5,
        "recall": 1.0,
        "yes_ratio": 1.0,
        "unread": 0.0,
        "f1": pytest.approx(2 / 3),
    }
    # The model that always says no: no division by zero, and no value that would hide it.
    assert values(scores, "typed", {"split": "popular"}) == {
        "accuracy": 0.5,
        "precision": None,
        "recall": 0.0,
        "yes_ratio": 0.0,
        "unread": 0.0,
        "f1": 0.0,
    }
    assert values(scores, "typed") == {
        "accuracy": 0.5,
        "precision": 0.5,
        "recall": 0.5,
        "yes_ratio": 0.5,
        "unread": 0.0,
        "f1": 0.5,
    }


def test_an_abstention_is_neither_yes_nor_no():
    texts = {one.id: "<think>yes or no" for one in POPE.questions}
    figures = values(score(POPE, texts), "typed")
    assert (figures["accuracy"], figures["recall"], figures["yes_ratio"]) == (0.0, 0.0, 0.0)
    assert figures["unread"] == 1.0


@pytest.mark.parametrize(
    ("text", "outcome", "unread"),
    [("", "empty", 1.0), ("???", "unread", 1.0), ("B", "wrong", 0.0), ("Wet.", "right", 0.0)],
)
def test_a_broken_run_is_told_from_a_weak_model(text, outcome, unread):
    bench = made("realworldqa", asked(1, "A", "choice", ("Wet", "Dry")))
    assert outcomes(bench, {"1": text}) == {"1": outcome}
    figures = values(score(bench, {"1": text}), "typed")
    assert figures == {"accuracy": float(outcome == "right"), "unread": unread}


def test_what_is_right_is_not_unread():
    bench = made("chartqa", asked(1, "47", "short_text"))
    text = "Looking at the chart, sales grew to 49 in the end."
    assert values(score(bench, {"1": text}), "typed") == {"relaxed_accuracy": 1.0, "unread": 0.0}
    assert outcomes(bench, {"1": text}) == {"1": "right"}


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("The net income is 1,234.", "1234", 1.0),
        ("Area A is the larger one", "24", 0.0),
        ("24", "24.0", 1.0),
    ],
)
def test_open_questions_of_mmmu_are_no_choices(text, answer, right):
    bench = made("mmmu", asked(1, answer, "short_text"))
    assert grades(bench, {"1": text})["typed"] == {"1": right}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refusal_never_earns_a_point(protocol):
    # MMMU's script finds the option "z" in "recognize".
    options = tuple("wxyz") if protocol == "typed" else ("north", "south", "east", "west")
    bench = made("mmmu", *(asked(n, "ABCD"[n % 4], "choice", options) for n in range(40)))
    texts = {one.id: "Sorry, I can't recognize the image" for one in bench.questions}
    assert values(score(bench, texts), protocol)["accuracy"] == 0.0


@pytest.mark.parametrize(("text", "right"), [("95", 1), ("105", 1), ("94.9", 0), ("105.1", 0)])
def test_the_tolerance_of_charts_is_a_share_of_the_right_number(text, right):
    bench = made("chartqa", asked(1, "100", "short_text"))
    assert {one["1"] for one in grades(bench, {"1": text}).values()} == {right}


def test_rows_without_rotations_are_not_called_circular():
    bench = made("mmbench", *rotated(7, 1, 1))
    circle = values(score(bench, {"7": "B"}), "typed")
    assert (circle["accuracy"], circle["circular_accuracy"]) == (1.0, None)
    four = made("mmbench", *rotated(7, 1, 4))
    same_letter = values(score(four, {one.id: "B" for one in four.questions}), "typed")
    assert (same_letter["accuracy"], same_letter["circular_accuracy"]) == (0.25, 0.0)


@pytest.mark.parametrize(
    "metric", ["accuracy", "pope", "mmmu", "mmbench", "chartqa", "infovqa", "realworldqa"]
)
def test_without_texts_nothing_has_a_value(metric):
    one = asked(1, "yes", split="a")
    for scores in (score(made(metric), {}), score(made(metric, one), {})):
        assert scores
        assert all(one.value is one.low is one.high is None for one in scores)
        assert all(one.questions == 0 for one in scores)


def test_parts_of_a_benchmark_stand_beside_the_whole():
    abcd = ("north", "south", "east", "west")
    questions = [
        asked(1, "A", "choice", abcd, subject="Art"),
        asked(2, "B", "choice", abcd, subject="Art"),
        asked(3, "C", "choice", abcd, subject="Math"),
    ]
    scores = score(made("mmmu", *questions), {"1": "A", "2": "(C)", "3": "C"})
    accuracy = {
        (one.protocol, one.group.get("subject")): (one.value, one.questions)
        for one in scores
        if one.metric == "accuracy"
    }
    for protocol in PROTOCOLS:
        assert accuracy[protocol, None] == (pytest.approx(2 / 3), 3)
        assert accuracy[protocol, "Art"] == (0.5, 2)
        assert accuracy[protocol, "Math"] == (1.0, 1)


def test_vlmevalkit_leaves_out_open_questions_of_realworldqa():
    questions = [
        asked(1, "A", "choice", ("left", "right")),
        asked(2, "2", "number"),
    ]
    scores = score(made("realworldqa", *questions), {"1": "A.", "2": "2."})
    accuracy = [one for one in scores if one.metric == "accuracy"]
    assert {one.protocol: (one.value, one.questions) for one in accuracy} == {
        "typed": (1.0, 2),
        "strict": (1.0, 2),
        "vlmevalkit": (1.0, 1),
        "lmms": (1.0, 2),
    }


def test_an_own_question_is_right_by_letter_or_by_words():
    questions = [
        asked(1, "B", "choice", ("left", "right")),
        asked(2, "a red star", "short_text"),
    ]
    own = made("accuracy", *questions)
    assert grades(own, {"1": "b", "2": "A red star."}) == {
        "typed": {"1": 1.0, "2": 1.0},
        "strict": {"1": 1.0, "2": 1.0},
    }
    assert grades(own, {"1": "It is the right one.", "2": "**A red star**"}) == {
        "typed": {"1": 1.0, "2": 1.0},
        "strict": {"1": 0.0, "2": 0.0},
    }


def rotated(index, answer_place, rotations):
    """A question of four options, shifted left by 0, 1, 2... places."""
    options = ("north", "south", "east", "west")
    return [
        asked(
            index + k * 1_000_000,
            "ABCD"[(answer_place - k) % 4],
            "choice",
            options[k:] + options[:k],
            category="maps",
        )
        for k in range(rotations)
    ]


def test_a_circle_counts_where_every_rotation_is_right():
    bench = made("mmbench", *rotated(1, 2, 4), *rotated(2, 0, 4), *rotated(3, 1, 2))
    right = {one.id: one.answers[0] for one in bench.questions}
    one_wrong = right | {"2000002": "D"}
    scores = {
        (one.protocol, one.metric): (one.value, one.questions)
        for one in score(bench, one_wrong)
        if one.group == {"category": "maps"}
    }
    for protocol in PROTOCOLS:
        assert scores[protocol, "accuracy"] == (pytest.approx(9 / 10), 10)
        # Of question 3, only two of four rotations are in the set: nothing can be said of it.
        assert scores[protocol, "circular_accuracy"] == (0.5, 2)


def test_a_circle_without_all_its_texts_is_left_out():
    bench = made("mmbench", *rotated(1, 2, 4))
    texts = {one.id: one.answers[0] for one in bench.questions[:3]}
    (circle,) = {
        (one.value, one.questions)
        for one in score(bench, texts)
        if one.metric == "circular_accuracy"
    }
    assert circle == (None, 0)


def test_an_unknown_metric_is_refused_by_name():
    with pytest.raises(ValueError, match="'bleu' is unknown; use one of accuracy, mmmu"):
        score(made("bleu"), {})


texts = st.sampled_from(["yes", "no", "Yes.", "No, it is not.", "", "perhaps", "<think>yes", "A"])


@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), texts), max_size=12))
def test_every_value_lies_in_its_interval(pairs):
    bench = made("pope", *(asked(n, right, split="s") for n, (right, _) in enumerate(pairs)))
    for one in score(bench, {str(n): text for n, (_, text) in enumerate(pairs)}):
        if one.value is not None:
            assert 0 <= one.value <= 1
        if one.low is not None and one.value is not None:
            assert 0 <= one.low <= one.high <= 1
            slack = 1e-9
            assert one.low - slack <= one.value <= one.high + slack
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
        for one in score(bench, dict.fromkeys((q.id for q in bench.questions), said)):
            if (one.protocol, one.metric, one.group) == (protocol, metric, {}):
                return one.value, one.low, one.high
        raise AssertionError(metric)

    value, low, high = interval(POPE, "no", "typed", "f1")
    assert (value, low) == (0.0, 0.0)
    assert 0.4 < high < 0.8
    info = made("infovqa", *(asked(n, "2018", "short_text") for n in range(8)))
    value, low, high = interval(info, "2018", "strict", "anls")
    assert (value, high) == (1.0, 1.0)
    assert 0.6 < low < 0.7
    # All the same, and neither right nor wrong: it could vary as much as right and wrong do.
    value, low, high = interval(info, "2019", "strict", "anls")
    assert low < 0.5 < value == 0.75 < 0.9 < high
