"""The benchmark of time: what it measures, and what it writes."""

import json
import time

import pytest
from fakes import PROMPTS, models

from langgraph_mai import Pair, create_mai, load_pair
from langgraph_mai.benchmarks import speed
from langgraph_mai.benchmarks.speed import critical_path, gains, measure_speed, recomputed
from langgraph_mai.benchmarks.speed_floor import Rates, floors
from langgraph_mai.benchmarks.speed_records import median_record, ratio_record
from langgraph_mai.benchmarks.speed_report import is_met, markdown, write_speed
from langgraph_mai.benchmarks.speed_runs import (
    InstantModel,
    Timed,
    forget,
    picture_caches,
    pictures_every_time,
    questions,
    run,
    run_one_by_one,
    with_settings,
)
from langgraph_mai.records.record import Record


def call(role, style, seconds, finish="stop", cached=0):
    return {
        "role": role,
        "style": style,
        "seconds": seconds,
        "finish_reason": finish,
        "cached_tokens": cached,
        "text": "Answer: 1",
    }


def timed(seconds, route="direct", *calls):
    return Timed(seconds, route, list(calls))


def test_the_critical_path_is_the_longer_direct_call_and_what_follows():
    both = [call("small", "direct", 1.0), call("large", "direct", 2.0)]
    assert timed(9, "direct", *both).critical_path == 2.0
    reasoned = [*both, call("small", "reason", 3.0)]
    assert timed(9, "reasoned", *reasoned).critical_path == 5.0
    transferred = [*reasoned, call("large", "transfer", 4.0)]
    assert timed(9, "transferred", *transferred).critical_path == 9.0
    stopped = [*both, call("small", "reason", 3.0, "cancelled")]
    assert timed(9, "direct", *stopped).critical_path == 2.0


def test_ratios_by_route():
    direct = [call("small", "direct", 1.0), call("large", "direct", 2.0)]
    reasoned = [*direct, call("small", "reason", 2.0)]
    records = critical_path(
        [timed(2.2, "direct", *direct), timed(8.0, "reasoned", *reasoned)], "wall"
    )
    found = {record.name: record.value for record in records}
    assert found == pytest.approx({"wall": 1.55, "wall.direct": 1.1, "wall.reasoned": 2.0})


def test_the_floor_is_that_of_calls_made_alone():
    rates = {
        "small": Rates(0.010, 0.004, 0.001),
        "large": Rates(0.020, 0.008, 0.002),
    }
    calls = [
        {**call("small", "direct", 1.0), "output_tokens": 2},
        {**call("large", "direct", 1.0), "output_tokens": 2},
        {**call("small", "reason", 1.0), "output_tokens": 51},
        {**call("large", "transfer", 1.0), "output_tokens": 1},
    ]
    records = floors([rates], [timed(0.168, "transferred", *calls)])
    found = {record.name: record.value for record in records}
    # The large direct call (20 + 2), the reasoning (4 + 50), the transfer (8).
    assert found["floor_ms.transferred"] == pytest.approx(84)
    assert found["wall_over_floor.transferred"] == pytest.approx(2.0)
    assert found["decode_ms_per_token.large"] == pytest.approx(2.0)


def test_gains_compare_the_same_question():
    slow = [timed(2.0), timed(9.0, "reasoned")]
    fast = [timed(1.0), timed(3.0, "reasoned")]
    found = {one.name: one.value for one in gains("reuse", without=slow, with_it=fast)}
    assert found == {
        "gain.reuse": 2.5,
        "gain.reuse.direct": 2.0,
        "gain.reuse.reasoned": 3.0,
    }


def test_medians_and_their_intervals():
    record = median_record("m", [1.0, 2.0, 3.0, 4.0, 100.0], "ms")
    assert (record.value, record.unit, record.questions) == (3.0, "ms", 5)
    assert 1.0 <= record.low <= 3.0 <= record.high <= 100.0
    steady = median_record("m", [2.0] * 4, "ms")
    assert (steady.low, steady.high) == (2.0, 2.0)
    with pytest.raises(ValueError, match="nothing was measured for m"):
        median_record("m", [], "ms")


def test_ratios_are_of_sums():
    record = ratio_record("r", [1.0, 5.0], [1.0, 2.0])
    assert record.value == 2.0
    assert 1.0 <= record.low <= record.high <= 2.5
    with pytest.raises(ValueError, match="the same questions"):
        ratio_record("r", [1.0], [])


@pytest.fixture
def demo():
    return load_pair("demo")


@pytest.fixture
def asked(tmp_path):
    return questions(tmp_path / "pictures", 12)


def disputing(pair):
    return create_mai(
        pair.small, pair.large, prompts=pair.prompts, verifier=lambda _one, _other: "disagree"
    )


def test_reused_prefixes_are_not_recomputed(demo, asked):
    runs = [run(disputing(demo), question, demo) for question in asked[:3]]
    (record,) = recomputed(demo, asked[:3], runs)
    assert record.name == "prefix_recomputed_share"
    assert record.value == 0.0
    assert record.questions == 3


def test_without_reuse_all_of_it_is_recomputed(demo, asked):
    whole = with_settings(demo, prefix_cache_bytes=0)
    runs = [run(disputing(whole), question, whole) for question in asked[:2]]
    (record,) = recomputed(whole, asked[:2], runs)
    assert record.value == 1.0


def test_a_run_starts_without_what_earlier_ones_left(demo, asked):
    graph = create_mai(demo.small, demo.large, prompts=demo.prompts)
    for _ in range(2):
        again = run(graph, asked[0], demo)
        assert [one["cached_tokens"] for one in again.calls if one["style"] == "direct"] == [0, 0]
    forget(demo)


def test_pictures_every_time_keeps_nothing_and_puts_the_limits_back(demo, asked):
    graph = create_mai(demo.small, demo.large, prompts=demo.prompts)
    limits = [cache.limit for cache in picture_caches()]
    with pictures_every_time():
        assert [cache.limit for cache in picture_caches()] == [0, 0, 0]
        assert run(graph, asked[0], demo).route in {"direct", "reasoned", "transferred"}
    assert [cache.limit for cache in picture_caches()] == limits


def test_models_that_do_not_tell_their_tokens():
    pair = Pair("instant", InstantModel(answer="1"), InstantModel(answer="2"), PROMPTS)
    (record,) = recomputed(pair, [{}], [timed(1.0)])
    assert record.value is None
    assert "do not tell their tokens" in record.note


def test_without_a_disputed_question_nothing_is_said_of_recomputing(demo, asked):
    runs = [timed(1.0, "direct", call("small", "direct", 1.0))] * 2
    (record,) = recomputed(demo, asked[:2], runs)
    assert (record.value, record.questions) == (None, 0)
    assert "none of the 2 questions was disputed" in record.note


def test_speedups_compare_the_same_questions(monkeypatch):
    async def one_by_one(_graph, given, _pair):
        return [(1.0 if question["question"] == "0" else 0.5, 0.25) for question in given]

    async def many(_graph, given, _pair, at_once):
        assert len(given) >= at_once
        return 0.1, 0.25

    monkeypatch.setattr(speed, "run_one_by_one", one_by_one)
    monkeypatch.setattr(speed, "run_many", many)
    monkeypatch.setattr(speed, "AT_ONCE", (1, 8, 32))
    pair = Pair("instant", InstantModel(answer="1"), InstantModel(answer="2"), PROMPTS)
    given = [{"question": str(at)} for at in range(32)]
    found = {one.name: one for one in speed.concurrency(pair, given, 1, lambda _: None)}
    values = {name: (one.value, one.questions) for name, one in found.items()}
    assert values["questions_per_second.1"] == (1.0, 1)
    assert values["questions_per_second.without_batches.32"] == (10.0, 32)
    assert values["speedup_8_over_1"] == (pytest.approx((1.0 + 7 * 0.5) / 8 / 0.1), 8)
    assert values["speedup_32_over_1"] == (pytest.approx((1.0 + 31 * 0.5) / 32 / 0.1), 32)
    assert values["gain.batching.32"] == (1.0, 32)
    assert values["cpu_ms_per_question.8"] == (250.0, 8)


async def test_questions_one_by_one_are_timed_each(demo, asked):
    graph = create_mai(demo.small, demo.large, prompts=demo.prompts)
    times = await run_one_by_one(graph, asked[:3], demo)
    assert len(times) == 3
    assert all(seconds > 0 and computed > 0 for seconds, computed in times)


def test_the_overhead_is_of_one_question(monkeypatch, asked):
    monkeypatch.setattr(speed, "_OVERHEAD_RUNS", 3)
    pair = Pair("instant", InstantModel(answer="1"), InstantModel(answer="2"), PROMPTS)
    records = speed.graph_overhead(pair, asked)
    assert {record.questions for record in records} == {1}
    assert all("3 runs" in record.note for record in records)


def test_all_figures_of_the_demo_pair(demo, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "_REPEATS", 1)
    monkeypatch.setattr(speed, "_OVERHEAD_RUNS", 3)
    monkeypatch.setattr(speed, "AT_ONCE", (1, 32, 128))
    seen = []
    records = measure_speed(demo, tmp_path, 3, seen.append)
    found = {record.name: record for record in records}
    assert {
        "wall_over_critical_path",
        "graph_overhead_ms",
        "prefix_recomputed_share",
        "speedup_32_over_1",
        "time_over_mai.large_reason",
        "gain.prefix_reuse",
        "gain.pictures_once",
        "gain.overlap",
        "gain.batching.32",
        "first_token_ms.small.reused",
        "decode_ms_per_token.large",
        "questions_per_second.128",
    } <= set(found)
    assert len(found) == len(records)
    assert found["wall_over_critical_path"].value >= 1.0
    assert all(record.note if record.value is None else record.value >= 0 for record in records)
    assert "loading the models" in seen


def test_a_graph_is_not_faster_than_its_calls():
    small, large = models("transferred", delay=0.02)
    pair = Pair("scripted", small, large, PROMPTS)
    graph = create_mai(small, large, prompts=PROMPTS)
    start = time.perf_counter()
    one = run(graph, {"question": "Is it red?"}, pair)
    assert 0.06 < one.critical_path <= one.seconds <= time.perf_counter() - start


RECORDS = [
    Record("graph_overhead_ms", 2.5, "ms", 2.0, 3.0, 9),
    Record("speedup_32_over_1", 3.0, "ratio", 2.0, 3.5, 9),
    Record("gain.overlap", 1.2, "ratio", None, None, 9),
    Record("wall_over_critical_path", 1.2, "ratio", 1.1, 1.3, 9),
]


def test_goals():
    assert [is_met(record) for record in RECORDS] == [True, False, None, False]
    lines = markdown(RECORDS).splitlines()
    assert lines[2].endswith("| at most 3 | yes |")
    assert lines[3].endswith("| at least 4 | **no** |")
    assert lines[4] == "| `gain.overlap` | 1.2  |  | 9 |  |  |"


def test_what_is_written(tmp_path):
    files = write_speed(tmp_path / "out", RECORDS, pair="demo")
    assert [file.name for file in files] == ["bench.json", "bench.md", "run.json", "bench.png"]
    bench = json.loads(files[0].read_text())
    assert bench[0] == {
        "name": "graph_overhead_ms",
        "value": 2.5,
        "unit": "ms",
        "low": 2.0,
        "high": 3.0,
        "questions": 9,
    }
    made = json.loads(files[2].read_text())
    assert made["settings"] == {"pair": "demo"}
    assert made["versions"]["langgraph"]
    assert files[3].read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_plot(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    files = write_speed(tmp_path, RECORDS)
    assert not (tmp_path / "bench.png").exists()
    assert len(files) == 3
