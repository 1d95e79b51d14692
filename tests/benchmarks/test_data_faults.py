"""Data that cannot be used, and the rows of repositories."""

import json

import public_files as files
import pytest

from langgraph_mai.benchmarks.datasets import DataError, load_benchmark
from langgraph_mai.benchmarks.datasets.rows import EVERY_CONFIG, hub_rows


def change(rows, **values):
    return [{**rows[0], **values}, *rows[1:]]


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "pope",
            change(files.pope_rows(), answer="maybe"),
            "pope.parquet, row 1: the answer is 'maybe', not yes or no.",
        ),
        (
            "pope",
            files.pope_rows() + files.pope_rows()[:1],
            "pope.parquet: two questions have the id 'adversarial-1'.",
        ),
        (
            "chartqa",
            change(files.chartqa_rows(), type="other"),
            "row 1: its type is 'other', neither human nor augmented.",
        ),
        (
            "chartqa",
            [{"question": "How high?", "type": "human_test", "image": files.stored()}],
            "row 1: there is no 'answer'; chartqa has the columns type, question, answer, image.",
        ),
        (
            "chartqa",
            change(files.chartqa_rows(), image=None),
            "row 1: there is no picture.",
        ),
        (
            "mmbench",
            change(files.mmbench_rows(), answer="nan"),
            "row 1: it has no answer; the test split is scored by its authors alone.",
        ),
        (
            "mmbench",
            change(files.mmbench_rows(), answer="E"),
            "row 1: the answer is 'E', not the letter of one of 4 choices.",
        ),
        (
            "mmbench",
            change(files.mmbench_rows(), B=""),
            "row 1: an option is empty, and one after it is not.",
        ),
        (
            "infovqa",
            change(files.infovqa_rows(), answers=[]),
            "row 1: it has no answers; the test split is scored by its authors alone.",
        ),
        (
            "mmmu",
            change(files.mmmu_rows("Art"), answer="?"),
            "row 1: it has no answer; test splits are scored by their authors alone.",
        ),
        (
            "mmmu",
            change(files.mmmu_rows("Art"), id="Art-1"),
            "row 1: the id 'Art-1' does not name a subject, as 'validation_Art_1' does.",
        ),
        (
            "realworldqa",
            change(files.realworldqa_rows(), answer="D"),
            "row 1: the answer is 'D', not the letter of one of 3 choices.",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named(load, name, rows, message):
    with pytest.raises(DataError) as raised:
        load(name, rows)
    assert str(raised.value).endswith(message)


def test_a_picture_that_a_file_names_must_be_there(tmp_path):
    row = {"question_id": 1, "image": "gone.jpg", "text": "Is there a cat?", "label": "no"}
    (tmp_path / "coco_pope_random.json").write_text(json.dumps(row))
    with pytest.raises(DataError, match=r"row 1: there is no picture gone\.jpg in .*\.$") as raised:
        load_benchmark("pope", data=tmp_path, folder=tmp_path / "out")
    assert str(raised.value).endswith(f"in {tmp_path}, nor below it in images/, png/, val2014/.")
    rows = [{**row, "question_id": number} for number in range(7)]
    (tmp_path / "coco_pope_random.json").write_text(json.dumps(rows))
    (tmp_path / "gone.jpg").touch()
    rows[3]["image"] = rows[5]["image"] = "lost.jpg"
    (tmp_path / "coco_pope_random.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match=r"row 4: there is no picture lost.* it is with 2 rows\.$"):
        load_benchmark("pope", data=tmp_path, folder=tmp_path / "out")


def test_a_split_that_is_asked_for_must_be_there(tmp_path):
    folder = tmp_path / "data"
    rows = files.chartqa_rows()
    for split in ("test", "val"):
        files.write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet", rows)

    def load(data=folder, **options):
        return load_benchmark("chartqa", data=data, folder=tmp_path / "out", **options)

    assert len(load(split="val").questions) == len(load().questions) == len(rows)
    with pytest.raises(DataError, match=r"has no split 'dev', but test, val; name one of these"):
        load(split="dev")
    single = files.write_parquet(tmp_path / "all.parquet", rows)
    assert len(load(single).questions) == len(rows)
    with pytest.raises(DataError, match=r"all\.parquet has no split 'test', but all;"):
        load(single, split="test")


@pytest.mark.parametrize("ending", ["parquet", "json"])
def test_a_column_may_tell_the_split(tmp_path, ending):
    rows = [
        {**row, "split": split}
        for split, row in zip(("dev", "dev", "test"), files.chartqa_rows() * 2, strict=False)
    ]
    path = tmp_path / f"rows.{ending}"
    if ending == "json":
        (tmp_path / "a.png").write_bytes(files.picture())
        path.write_text(json.dumps([{**row, "image": "a.png"} for row in rows]))
    else:
        files.write_parquet(path, rows)
    for split, count in (("dev", 2), ("test", 1)):
        chartqa = load_benchmark("chartqa", data=path, split=split, folder=tmp_path / "out")
        assert len(chartqa.questions) == count
    with pytest.raises(DataError, match=r"has no split 'val', but dev, test;"):
        load_benchmark("chartqa", data=path, split="val", folder=tmp_path / "out")


def test_data_is_loaded_without_other_lines(tmp_path, capfd):
    import datasets

    datasets.enable_progress_bars()
    path = files.write_parquet(tmp_path / "good.parquet", files.chartqa_rows())
    capfd.readouterr()
    load_benchmark("chartqa", data=path, folder=tmp_path / "out")
    path.write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        load_benchmark("chartqa", data=path, folder=tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    assert not datasets.are_progress_bars_disabled()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("popes", {}, "There is no benchmark 'popes'; use one of shapes, pope"),
        ("pope", {"data": "./gone"}, "There is no file or folder './gone'"),
        ("pope", {"data": "gone.parquet"}, "There is no file or folder 'gone.parquet'"),
        ("pope", {"limit": 0}, "The limit is 0; it must be at least 1."),
        ("shapes", {"data": "x"}, "shapes is generated; it takes no data."),
        ("shapes", {"split": "test"}, "shapes has no splits."),
        ("own", {}, "Questions of one's own need a file: give it as data."),
        ("pope", {"data": "nobody/nothing"}, "The data set 'nobody/nothing', split 'test', cannot"),
    ],
)
def test_what_cannot_be_loaded_is_said(tmp_path, name, options, message):
    with pytest.raises(DataError) as raised:
        load_benchmark(name, folder=tmp_path, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.json", "[{", "a.json begins like a JSON list, but it is not JSON"),
        ("a.json", "[" * 100_000, "but it is nested too deeply"),
        ("a.jsonl", '{"a": 1}\n{', "a.jsonl, line 2: it is not JSON"),
        ("a.jsonl", "[1]", "must hold objects, one a question."),
        ("a.txt", "", "holds no parquet, JSON or JSON Lines files."),
        ("a.jsonl", "", "holds no questions."),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, file, content, message):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / file).write_text(content)
    with pytest.raises(DataError, match=message):
        load_benchmark("chartqa", data=folder, folder=tmp_path)


CARD = """---
configs:
- config_name: Art
  data_files:
  - split: validation
    path: Art/validation-*
- config_name: Math
  data_files:
  - split: validation
    path: Math/validation-*
---
"""


def test_rows_of_a_repository_with_several_configurations(tmp_path, monkeypatch):
    # `datasets` reads a clone of a repository as it reads the hub.
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    clone = tmp_path / "clone"
    for subject in files.SUBJECTS:
        files.write_parquet(clone / subject / "validation-0.parquet", files.mmmu_rows(subject))
    (clone / "README.md").write_text(CARD)
    every = hub_rows(str(clone), EVERY_CONFIG, "validation")
    assert every.column("id") == [
        f"validation_{subject}_{number}" for subject in files.SUBJECTS for number in (1, 2)
    ]
    assert every.column("no such column") == [None] * 4
    assert every.table[0]["image_1"]["bytes"] == files.picture(1)
    (art,) = {one.split("_")[1] for one in hub_rows(str(clone), "Art", "validation").column("id")}
    assert art == "Art"
    with pytest.raises(DataError, match="split 'dev', cannot be loaded from the hub"):
        hub_rows(str(clone), "Art", "dev")
    with pytest.raises(DataError, match="Of its configurations, Art, Math, none is 'Music'"):
        hub_rows(str(clone), "Music", "validation")


def test_a_repository_with_one_configuration_is_taken_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    files.write_parquet(tmp_path / "clone" / "data" / "dev-0.parquet", files.mmbench_rows())
    card = CARD.partition("- config_name: Math")[0].replace("name: Art", "name: default")
    card = card.replace("split: validation", "split: dev").replace("Art/validation", "data/dev")
    (tmp_path / "clone" / "README.md").write_text(f"{card}---\n")
    for config in ("en", None, EVERY_CONFIG):
        assert len(hub_rows(str(tmp_path / "clone"), config, "dev").table) == 6
