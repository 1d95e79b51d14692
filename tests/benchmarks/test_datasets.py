import json
from itertools import pairwise

import public_files as files
import pytest
from PIL import Image

from langgraph_mai.answers import parse
from langgraph_mai.benchmarks.datasets import BENCHMARKS, load_benchmark
from langgraph_mai.benchmarks.metrics import METRICS, score
from langgraph_mai.configs import list_prompts
from langgraph_mai.models.images import ImageError, load_image


def texts(benchmark):
    return {one.id: one.answers[0] for one in benchmark.questions}


def group_values(benchmark, said, protocol="typed", metric="accuracy"):
    return {
        tuple(one.group.values()): one.value
        for one in score(benchmark, said)
        if (one.protocol, one.metric) == (protocol, metric)
    }


def test_pope(load):
    pope = load("pope", files.pope_rows())
    assert (pope.name, pope.metric, len(pope.questions)) == ("pope", "pope", 12)
    first = pope.questions[0]
    assert (first.id, first.question) == ("adversarial-1", "Is there a cat in the image?")
    assert (first.answers, first.answer_type) == (("yes",), "yes_no")
    # The same picture is one file, whichever split asks about it.
    assert len({one.images for one in pope.questions}) == 2
    with Image.open(first.images[0]) as picture:
        assert picture.format == "JPEG"
    assert group_values(pope, texts(pope)) == {
        (): 1.0,
        ("adversarial",): 1.0,
        ("popular",): 1.0,
        ("random",): 1.0,
    }


def test_a_limit_takes_the_splits_of_pope_in_turn(load):
    pope = load("pope", files.pope_rows(), limit=5)
    assert [one.id for one in pope.questions] == [
        "adversarial-1",
        "adversarial-2",
        "popular-1",
        "popular-2",
        "random-1",
    ]


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_pope_in_the_files_of_its_repository(tmp_path, ending):
    (tmp_path / "val2014").mkdir()
    (tmp_path / "val2014" / "COCO_1.jpg").write_bytes(files.picture(1, "JPEG"))
    row = {"question_id": 1, "image": "COCO_1.jpg", "text": "Is there a cat?", "label": "no"}
    for split in ("random", "popular"):
        (tmp_path / f"coco_pope_{split}.{ending}").write_text(json.dumps(row) + "\n")
    pope = load_benchmark("pope", data=tmp_path, folder=tmp_path / "out")
    assert [(one.id, one.group["split"]) for one in pope.questions] == [
        ("popular-1", "popular"),
        ("random-1", "random"),
    ]
    assert pope.questions[0].images == (str(tmp_path / "val2014" / "COCO_1.jpg"),)


def test_mmmu_from_a_folder_with_a_folder_for_each_subject(tmp_path):
    for subject in files.SUBJECTS:
        rows = files.mmmu_rows(subject)
        name = "{}-00000-of-00001.parquet"
        files.write_parquet(tmp_path / subject / name.format("validation"), rows)
        files.write_parquet(tmp_path / subject / name.format("test"), rows[:1])
    mmmu = load_benchmark("mmmu", data=tmp_path, folder=tmp_path / "out")
    assert [one.id for one in mmmu.questions] == [
        "validation_Art_1",
        "validation_Art_2",
        "validation_Math_1",
        "validation_Math_2",
    ]
    choice, open_ended = mmmu.questions[:2]
    assert choice.choices == ("Gothic and <image 3>", "Baroque, it's late", "Modern")
    assert (choice.answers, choice.answer_type, len(choice.images)) == (("B",), "choice", 3)
    assert open_ended.answers == ("6", "six")
    assert (open_ended.choices, open_ended.answer_type) == ((), "short_text")
    assert len(open_ended.images) == 1
    assert group_values(mmmu, texts(mmmu)) == {(): 1.0, ("Art",): 1.0, ("Math",): 1.0}
    limited = load_benchmark("mmmu", data=tmp_path, folder=tmp_path / "out", limit=2)
    assert [one.id for one in limited.questions] == ["validation_Art_1", "validation_Math_1"]


def test_mmbench(load):
    mmbench = load("mmbench", files.mmbench_rows())
    assert [one.id for one in mmbench.questions[:4]] == ["7", "9", "1000007", "1000009"]
    first, second = mmbench.questions[:2]
    assert first.question == "The compass is right.\nWhich way does it point?"
    assert first.choices == ("north", "south", "east", "west")
    assert (second.question, second.choices) == ("Which way does it point?", ("one", "two"))
    assert group_values(mmbench, texts(mmbench), metric="circular_accuracy") == {
        (): 1.0,
        ("spatial_relationship",): 1.0,
        ("object_localization",): 1.0,
        ("relation_reasoning",): 1.0,
    }


@pytest.mark.parametrize(
    ("options", "choices"),
    [
        (("None", "Two", "One", "Three"), ("None", "Two", "One", "Three")),
        (("NA", "null", "nan", "N/A"), ("NA", "null", "nan", "N/A")),
        (("yes", "no", "nan", "nan"), ("yes", "no")),
        (("yes", "no", None, None), ("yes", "no")),
    ],
)
def test_options_that_look_like_nothing(load, options, choices):
    row = files.mmbench_rows()[0] | dict(zip("ABCD", options, strict=True))
    assert load("mmbench", [row | {"answer": "A"}]).questions[0].choices == choices


def test_mmbench_in_its_older_version(load):
    rows = [
        {**row, "index": str(row["index"]), "l2-category": row.pop("L2-category")}
        for row in files.mmbench_rows()
    ]
    older, newer = load("mmbench", rows), load("mmbench", files.mmbench_rows())
    assert older.questions == newer.questions
    assert (
        load("mmbench", rows, limit=4).questions == older.questions[::2][:2] + older.questions[4:]
    )


def test_a_limit_takes_whole_circles_of_mmbench(load):
    mmbench = load("mmbench", files.mmbench_rows(), limit=4)
    assert [one.id for one in mmbench.questions] == ["7", "1000007", "2000007", "3000007"]
    assert group_values(mmbench, texts(mmbench), metric="circular_accuracy")[()] == 1.0


def test_chartqa(load):
    chartqa = load("chartqa", files.chartqa_rows())
    assert [one.group["split"] for one in chartqa.questions] == ["human"] * 3 + ["augmented"] * 3
    values = group_values(chartqa, texts(chartqa), "strict", "relaxed_accuracy")
    assert values == {(): 1.0, ("human",): 1.0, ("augmented",): 1.0}
    limited = load("chartqa", files.chartqa_rows(), limit=2)
    assert [one.id for one in limited.questions] == ["1", "4"]


def test_chartqa_in_its_own_files(tmp_path):
    (tmp_path / "png").mkdir()
    (tmp_path / "png" / "4.png").write_bytes(files.picture(4))
    row = {"imgname": "4.png", "query": "How high is it?", "label": "4"}
    for split in ("human", "augmented"):
        (tmp_path / f"test_{split}.json").write_text(json.dumps([row]))
    chartqa = load_benchmark("chartqa", data=tmp_path, folder=tmp_path / "out")
    assert [one.group["split"] for one in chartqa.questions] == ["augmented", "human"]
    assert chartqa.questions[1].images == (str(tmp_path / "png" / "4.png"),)
    assert chartqa.questions[1].answers == ("4",)


def test_infovqa_in_the_folder_of_its_configuration(tmp_path):
    files.write_parquet(
        tmp_path / "InfographicVQA" / "validation-00000-of-00001.parquet", files.infovqa_rows()
    )
    files.write_parquet(tmp_path / "DocVQA" / "validation-0.parquet", [{"questionId": "1"}])
    infovqa = load_benchmark("infovqa", data=tmp_path, folder=tmp_path / "out")
    (one,) = infovqa.questions
    assert (one.id, one.answers, one.answer_type) == (
        "98313",
        ("410 million", "410M"),
        "short_text",
    )
    assert group_values(infovqa, {one.id: "410m"}, "lmms", "anls") == {(): 1.0}


def test_realworldqa_says_nothing_of_how_to_answer(load):
    choice, number = load("realworldqa", files.realworldqa_rows()).questions
    assert choice.question == "Which lane turns left?"
    assert choice.choices == ("Left lane", "Middle lane", "Right lane")
    assert (choice.answers, choice.answer_type) == (("A",), "choice")
    assert number.question == "How many bikes are there?"
    assert (number.answers, number.answer_type, number.choices) == (("2",), "number", ())


def test_shapes_are_the_same_each_time(tmp_path):
    shapes = load_benchmark("shapes", limit=22, folder=tmp_path / "a")
    again = load_benchmark("shapes", limit=22, folder=tmp_path / "b")
    assert [(one.question, one.answers) for one in shapes.questions] == [
        (one.question, one.answers) for one in again.questions
    ]
    assert {one.group["kind"] for one in shapes.questions} == {
        *("exist", "count", "compare", "choice", "spatial", "attribute"),
        *("bar_value", "bar_compare", "bar_count", "bar_sum", "bar_highest"),
    }
    assert shapes.prompts == "demo"
    assert group_values(shapes, texts(shapes))[()] == 1.0
    assert group_values(shapes, texts(shapes), "strict")[()] == 1.0
    for one in shapes.questions:
        assert parse(one.answers[0], one.answer_type, one.choices).value is not None


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name not in ("shapes", "own")])
def test_each_public_benchmark_has_its_metric_and_prompts(name):
    assert name in METRICS
    assert name in list_prompts()


def test_a_broken_picture_does_not_keep_the_others_from_loading(load):
    cells = [{"bytes": files.picture(1)[:40], "path": "broken.png"}, files.stored(2)]
    rows = [row | {"image": cell} for row, cell in zip(files.chartqa_rows(), cells, strict=False)]
    broken, whole = load("chartqa", rows).questions
    assert load_image(whole.images[0]).mode == "RGB"
    with pytest.raises(ImageError):
        load_image(broken.images[0])


@pytest.mark.parametrize("name", ["pope", "mmmu", "mmbench", "chartqa"])
def test_a_higher_limit_only_adds_questions(load, name):
    rows = {
        "pope": files.pope_rows(),
        "mmmu": files.mmmu_rows("Art") + files.mmmu_rows("Math"),
        "mmbench": files.mmbench_rows(),
        "chartqa": files.chartqa_rows(),
    }[name]
    sets = [set(load_ids(load, name, rows, limit)) for limit in range(1, len(rows) + 1)]
    assert [len(ids) for ids in sets] == list(range(1, len(rows) + 1))
    assert all(few < more for few, more in pairwise(sets))


def load_ids(load, name, rows, limit):
    return [one.id for one in load(name, rows, limit=limit).questions]
