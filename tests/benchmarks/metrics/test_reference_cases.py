"""Each protocol against what its reference returned when it was run on the same outputs."""

import json
from pathlib import Path
from string import ascii_uppercase

import pytest

from langgraph_mai.benchmarks.metrics import grades, score
from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion

CASES = [
    case
    for line in (Path(__file__).parents[2] / "data" / "score_cases.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
    for case in [json.loads(line)]
]
SINGLE = [case for case in CASES if case["kind"] == "score" and isinstance(case["prediction"], str)]
SETS = [case for case in CASES if case["kind"] == "score" and isinstance(case["prediction"], list)]
READINGS = [case for case in CASES if case["kind"] == "extract"]

ANSWER_TYPES = {
    "POPE": "yes_no",
    "MMMU": "choice",
    "MMBench": "choice",
    "RealWorldQA": "choice",
    "ChartQA": "short_text",
    "InfoVQA": "short_text",
}
# The references of each protocol. What RealWorldQA's own rule and ChartQA's are, nobody published
# as a script: theirs are tested in test_protocols.py.
REFERENCES = {
    "strict": {
        "POPE": "RUCAIBox/POPE",
        "MMMU": "MMMU official",
        "MMBench": "VLMEvalKit",
        "ChartQA": "VLMEvalKit",
        "InfoVQA": "RRC script (Qwen-VL copy)",
    },
    "vlmevalkit": {
        "POPE": "VLMEvalKit",
        "MMMU": "VLMEvalKit",
        "MMBench": "VLMEvalKit",
        "RealWorldQA": "VLMEvalKit",
        "ChartQA": "VLMEvalKit",
        "InfoVQA": "VLMEvalKit",
    },
    "lmms": {
        "POPE": "lmms-eval",
        "MMMU": "lmms-eval",
        "MMBench": "lmms-eval (prefetch)",
        "RealWorldQA": "lmms-eval",
        "ChartQA": "lmms-eval",
        "InfoVQA": "lmms-eval",
    },
}
EXCEPTIONS = {
    ("strict", "s-chartqa-0512"): "A right answer that is a list is one text, as ChartQA's paper "
    "has it; that its items are alternatives is VLMEvalKit's own rule.",
    ("strict", "s-chartqa-0513"): "The same: [1, 2] is the right answer [1, 2].",
    (
        "strict",
        "s-pope-0088",
    ): "POPE's script divides by zero and dies on an always-no model, which "
    "has no precision; its accuracy, recall and F1 are 1 of 2, 0 and 0.",
    ("strict", "s-pope-0090"): "POPE's script divides by zero and dies; accuracy and F1 are 0.",
    ("strict", "s-pope-0091"): "It dies here too; accuracy is 2 of 3 and F1 is 0.",
}


def returned(case, protocol):
    """What the protocol's reference returned for a case; () where it was not run."""
    name = REFERENCES[protocol].get(case["benchmark"])
    if name == "VLMEvalKit" and not case.get("options") and case["benchmark"] == "MMMU":
        name = "VLMEvalKit (pseudo-MCQ)"
    if name in case.get("disputed", {}):
        return case["disputed"][name]
    if name in case.get("agreed_by", ()) or name == case["source"]:
        return case["expected"]
    return ()


def question(case, number=0, references=None):
    options = tuple(case.get("options", ()))
    answer_type = ANSWER_TYPES[case["benchmark"]]
    return BenchmarkQuestion(
        id=str(number),
        question=case.get("question", ""),
        images=(),
        answers=tuple(references or case["references"]),
        choices=options,
        answer_type="short_text" if answer_type == "choice" and not options else answer_type,
    )


def benchmark(case, *questions):
    name = case["benchmark"].lower()
    return Benchmark(name=name, questions=questions, prompts="default", metric=name)


def graded(case, protocol):
    return grades(benchmark(case, question(case)), {"0": case["prediction"]})[protocol].get("0")


def expected(protocol, cases):
    return [
        case
        for case in cases
        if returned(case, protocol) != () and (protocol, case["id"]) not in EXCEPTIONS
    ]


@pytest.mark.parametrize(
    ("protocol", "count"), [("strict", 252), ("vlmevalkit", 273), ("lmms", 254)]
)
def test_grades_as_the_reference_does(protocol, count):
    cases = expected(protocol, SINGLE)
    # A reference that returned nothing, or would have picked at random, gives no point.
    differ = {
        case["id"]: (graded(case, protocol), returned(case, protocol))
        for case in cases
        if graded(case, protocol) != pytest.approx(returned(case, protocol) or 0.0, abs=1e-5)
    }
    assert differ == {}
    assert len(cases) == count


def read_letters(case, protocol, figure):
    """The answers that an output counts as right for."""
    possible = ["yes", "no"] if case["benchmark"] == "POPE" else list(ascii_uppercase[:5])
    return {
        answer
        for answer in possible
        for one in score(
            benchmark(case, question(case, references=[answer])), {"0": case["prediction"]}
        )
        if (one.protocol, one.metric, one.value) == (protocol, figure, 1.0)
    }


@pytest.mark.parametrize("protocol", REFERENCES)
def test_reads_letters_and_yes_and_no_as_the_reference_does(protocol):
    cases = expected(protocol, READINGS)
    differ = {}
    for case in cases:
        value = returned(case, protocol)
        nothing = value in (None, "unknown", "random guess", "Z")
        read = read_letters(case, protocol, "accuracy")
        if read != (set() if nothing else {value}):
            differ[case["id"]] = (read, value)
    assert differ == {}
    assert len(cases) > 100


def test_reads_letters_as_the_static_mode_of_lmms_eval_does():
    differ = {}
    for case in (case for case in (*READINGS, *SINGLE) if case["benchmark"] == "MMBench"):
        name = "lmms-eval (static)"
        disputed = case.get("disputed", {})
        if name not in disputed and name not in case.get("agreed_by", ()):
            continue
        value = disputed.get(name, case["expected"])
        read = read_letters(case, "lmms", "static_accuracy")
        if case["kind"] == "score":
            assert (case["references"][0] in read) == bool(value), case["id"]
        elif read != ({value} if value else set()):
            differ[case["id"]] = (read, value)
    assert differ == {}


@pytest.mark.parametrize("protocol", ["strict", "vlmevalkit", "lmms"])
def test_figures_of_pope(protocol):
    cases = [case for case in expected(protocol, SETS) if case["benchmark"] == "POPE"]
    assert len(cases) == (3 if protocol == "strict" else 6)
    for case in cases:
        questions = [question(case, n, [right]) for n, right in enumerate(case["references"])]
        texts = {str(n): text for n, text in enumerate(case["prediction"])}
        figures = {
            one.metric: one.value
            for one in score(benchmark(case, *questions), texts)
            if one.protocol == protocol
        }
        wanted = dict(returned(case, protocol))
        wanted["accuracy"] = wanted.pop("acc")
        assert figures == pytest.approx(wanted, abs=1e-5), case["id"]


def test_figures_where_the_script_of_pope_dies():
    values = {}
    for case in SETS:
        if ("strict", case["id"]) in EXCEPTIONS:
            questions = [question(case, n, [right]) for n, right in enumerate(case["references"])]
            texts = {str(n): text for n, text in enumerate(case["prediction"])}
            for one in score(benchmark(case, *questions), texts):
                if one.protocol == "strict":
                    values[case["id"], one.metric] = one.value
    assert values == {
        ("s-pope-0088", "accuracy"): 0.5,
        ("s-pope-0088", "precision"): None,
        ("s-pope-0088", "recall"): 0.0,
        ("s-pope-0088", "yes_ratio"): 0.0,
        ("s-pope-0088", "f1"): 0.0,
        ("s-pope-0090", "accuracy"): 0.0,
        ("s-pope-0090", "precision"): 0.0,
        ("s-pope-0090", "recall"): 0.0,
        ("s-pope-0090", "yes_ratio"): 0.5,
        ("s-pope-0090", "f1"): 0.0,
        ("s-pope-0091", "accuracy"): pytest.approx(2 / 3),
        ("s-pope-0091", "precision"): 0.0,
        ("s-pope-0091", "recall"): None,
        ("s-pope-0091", "yes_ratio"): pytest.approx(1 / 3),
        ("s-pope-0091", "f1"): 0.0,
    }


@pytest.mark.parametrize("protocol", ["strict", "vlmevalkit", "lmms"])
def test_circles_of_mmbench(protocol):
    cases = [case for case in SETS if case["benchmark"] == "MMBench"]
    assert len(cases) == 8
    for case in cases:
        options = case["options"]
        questions = [
            question({**case, "options": options[k:] + options[:k]}, 7 + k * 1_000_000, [letter])
            for k, letter in enumerate(case["references"])
        ]
        texts = {one.id: text for one, text in zip(questions, case["prediction"], strict=True)}
        circle = [
            one
            for one in score(benchmark(case, *questions), texts)
            if (one.protocol, one.metric) == (protocol, "circular_accuracy")
        ]
        assert [(one.value, one.questions) for one in circle] == [(case["expected"], 1)], case["id"]


@pytest.mark.parametrize("protocol", ["strict", "vlmevalkit", "lmms"])
def test_mean_anls_of_infovqa(protocol):
    cases = [case for case in SETS if case["benchmark"] == "InfoVQA"]
    assert len(cases) == 2
    for case in cases:
        questions = [question(case, n, right) for n, right in enumerate(case["references"])]
        texts = {str(n): text for n, text in enumerate(case["prediction"])}
        means = [
            one.value
            for one in score(benchmark(case, *questions), texts)
            if (one.protocol, one.metric) == (protocol, "anls")
        ]
        assert means == [pytest.approx(case["expected"], abs=1e-5)], case["id"]


def test_every_exception_is_still_one():
    cases = {case["id"]: case for case in CASES}
    for protocol, name in EXCEPTIONS:
        if isinstance(cases[name]["prediction"], str):
            assert graded(cases[name], protocol) != returned(cases[name], protocol)
        else:
            assert returned(cases[name], protocol)["error"] == "ZeroDivisionError"
