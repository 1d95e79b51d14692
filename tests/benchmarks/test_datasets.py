import json
import re
from itertools import pairwise

import public_files as files
import pytest
from PIL import Image

from langgraph_mai.answers import parse
from langgraph_mai.benchmarks.datasets import BENCHMARKS, DataError, load_benchmark
from langgraph_mai.benchmarks.datasets.rows import EVERY_CONFIG, hub_rows
from langgraph_mai.benchmarks.metrics import METRICS, score
from langgraph_mai.configs import load_prompts
from langgraph_mai.models.images import ImageError, load_image
from langgraph_mai.nodes.prompts import style_instruction, transfer_instruction

PUBLIC_ROWS = {
    "pope": files.pope_rows(),
    "mmmu": files.mmmu_rows("Art") + files.mmmu_rows("Math"),
    "mmbench": files.mmbench_rows(),
    "chartqa": files.chartqa_rows(),
    "infovqa": files.infovqa_rows(),
    "realworldqa": files.realworldqa_rows(),
}
ANSWER_FORMS = {
    "yes_no": "yes or no",
    "choice": "letter of",
    "number": "number",
    "short_text": "word or",
}


def right_by_part(benchmark, protocol="typed", metric="accuracy"):
    """The figure of right answers by part of the benchmark."""
    texts = {one.id: one.answers[0] for one in benchmark.questions}
    return {
        tuple(one.group.values()): one.value
        for one in score(benchmark, texts)
        if (one.protocol, one.metric) == (protocol, metric)
    }


def ids(benchmark):
    return [one.id for one in benchmark.questions]


def test_pope(load):
    pope = load("pope", files.pope_rows())
    assert (pope.name, pope.metric, len(pope.questions)) == ("pope", "pope", 12)
    first = pope.questions[0]
    assert (first.id, first.question) == ("adversarial-1", "Is there a cat in the image?")
    assert (first.answers, first.answer_type) == (("yes",), "yes_no")
    # The same image is one file, whichever split asks about it.
    assert len({one.images for one in pope.questions}) == 2
    with Image.open(first.images[0]) as image:
        assert image.format == "JPEG"
    parts = [(), *((split,) for split in ("adversarial", "popular", "random"))]
    assert right_by_part(pope) == dict.fromkeys(parts, 1.0)


def test_mmmu_from_a_folder_with_a_folder_for_each_subject(load, tmp_path):
    for subject in files.SUBJECTS:
        rows = files.mmmu_rows(subject)
        for split, some in (("validation", rows), ("test", rows[:1])):
            name = f"{split}-00000-of-00001.parquet"
            files.write_parquet(tmp_path / subject / name, some)
    mmmu = load_benchmark("mmmu", data=tmp_path, folder=tmp_path / "out")
    assert ids(mmmu) == [f"validation_{subject}_{n}" for subject in files.SUBJECTS for n in (1, 2)]
    choice, open_ended = mmmu.questions[:2]
    assert choice.choices == ("Gothic and <image 3>", "Baroque, it's late", "Modern")
    assert (choice.answers, choice.answer_type, len(choice.images)) == (("B",), "choice", 3)
    assert open_ended.answers == ("6", "six")
    assert (open_ended.choices, open_ended.answer_type) == ((), "short_text")
    assert len(open_ended.images) == 1
    assert right_by_part(mmmu) == {(): 1.0, ("Art",): 1.0, ("Math",): 1.0}
    # Images are numbered as they are sent.
    row = files.mmmu_rows("Art")[0] | {"question": "Is <image 3> like <image 2>?"}
    (one,) = load("mmmu", [row | {"options": "['<image 2>', 'no']"}]).questions
    assert one.question == "Is <image 2> like <image 1>?"
    assert (one.choices, len(one.images)) == (("<image 1>", "no"), 2)


def test_mmbench_also_in_its_older_version(load):
    mmbench = load("mmbench", files.mmbench_rows())
    assert ids(mmbench)[:4] == ["7", "9", "1000007", "1000009"]
    first, second = mmbench.questions[:2]
    assert first.question == "The compass is right.\nWhich way does it point?"
    assert first.choices == ("north", "south", "east", "west")
    assert (second.question, second.choices) == ("Which way does it point?", ("one", "two"))
    circles = right_by_part(mmbench, metric="circular_accuracy")
    kinds = ("spatial_relationship", "object_localization", "relation_reasoning")
    assert circles == dict.fromkeys([(), *((kind,) for kind in kinds)], 1.0)
    older = [
        {**row, "index": str(row["index"]), "l2-category": row.pop("L2-category")}
        for row in files.mmbench_rows()
    ]
    assert load("mmbench", older).questions == mmbench.questions
    # Options that look like nothing are texts, but for nan at their end.
    for options, choices in [
        (("None", "Two", "One", "Three"), ("None", "Two", "One", "Three")),
        (("NA", "null", "nan", "N/A"), ("NA", "null", "nan", "N/A")),
        (("yes", "no", "nan", "nan"), ("yes", "no")),
        (("yes", "no", None, None), ("yes", "no")),
    ]:
        row = files.mmbench_rows()[0] | dict(zip("ABCD", options, strict=True))
        assert load("mmbench", [row | {"answer": "A"}]).questions[0].choices == choices


def test_chartqa_and_realworldqa(load):
    chartqa = load("chartqa", files.chartqa_rows())
    assert [one.group["split"] for one in chartqa.questions] == ["human"] * 3 + ["augmented"] * 3
    values = right_by_part(chartqa, "strict", "relaxed_accuracy")
    assert values == {(): 1.0, ("human",): 1.0, ("augmented",): 1.0}
    choice, number = load("realworldqa", files.realworldqa_rows()).questions
    # What the data says of how to answer is left out.
    assert choice.question == "Which lane turns left?"
    assert choice.choices == ("Left lane", "Middle lane", "Right lane")
    assert (choice.answers, choice.answer_type) == (("A",), "choice")
    assert number.question == "How many bikes are there?"
    assert (number.answers, number.answer_type, number.choices) == (("2",), "number", ())


ORIGINAL = [
    (
        "pope",
        {"question_id": 1, "image": "COCO_1.jpg", "text": "Is there a cat?", "label": "no"},
        "val2014/COCO_1.jpg",
        {"coco_pope_popular.json": "popular", "coco_pope_random.jsonl": "random"},
    ),
    (
        "chartqa",
        {"imgname": "4.png", "query": "How high is it?", "label": "4"},
        "png/4.png",
        {"test_augmented.json": "augmented", "test_human.json": "human"},
    ),
]


@pytest.mark.parametrize(("name", "row", "image", "splits"), ORIGINAL)
def test_files_as_the_authors_have_them(tmp_path, name, row, image, splits):
    (tmp_path / image).parent.mkdir()
    (tmp_path / image).write_bytes(files.picture(4))
    for file in splits:
        (tmp_path / file).write_text(json.dumps(row if file.endswith("l") else [row]))
    found = load_benchmark(name, data=tmp_path, folder=tmp_path / "out").questions
    assert [one.group["split"] for one in found] == list(splits.values())
    assert [one.images for one in found] == [(str(tmp_path / image),)] * 2
    assert {one.answers for one in found} == {(row["label"],)}


def test_infovqa_in_the_folder_of_its_configuration(tmp_path):
    files.write_parquet(
        tmp_path / "InfographicVQA" / "validation-00000-of-00001.parquet", files.infovqa_rows()
    )
    files.write_parquet(tmp_path / "DocVQA" / "validation-0.parquet", [{"questionId": "1"}])
    infovqa = load_benchmark("infovqa", data=tmp_path, folder=tmp_path / "out")
    (one,) = infovqa.questions
    assert (one.id, one.answer_type) == ("98313", "short_text")
    assert one.answers == ("410 million", "410M")
    assert right_by_part(infovqa, "lmms", "anls") == {(): 1.0}


@pytest.mark.parametrize(
    ("name", "limit", "first"),
    [
        ("pope", 5, ["adversarial-1", "adversarial-2", "popular-1", "popular-2", "random-1"]),
        ("mmmu", 2, ["validation_Art_1", "validation_Math_1"]),
        ("mmbench", 4, ["7", "1000007", "2000007", "3000007"]),  # a whole circle
        ("chartqa", 2, ["1", "4"]),
    ],
)
def test_a_limit_takes_parts_in_turn_and_a_higher_one_only_adds(load, name, limit, first):
    rows = PUBLIC_ROWS[name]
    sets = [ids(load(name, rows, limit=number)) for number in range(1, len(rows) + 1)]
    assert sets[limit - 1] == first
    assert [len(some) for some in sets] == list(range(1, len(rows) + 1))
    assert all(set(few) < set(more) for few, more in pairwise(sets))


def test_shapes_are_the_same_each_time(tmp_path):
    shapes = load_benchmark("shapes", limit=22, folder=tmp_path / "a")
    again = load_benchmark("shapes", limit=22, folder=tmp_path / "b")
    assert [(one.question, one.answers) for one in shapes.questions] == [
        (one.question, one.answers) for one in again.questions
    ]
    assert {one.group["kind"] for one in shapes.questions} == {
        *("exist", "count", "compare", "choice", "walks", "attribute"),
        *("bar_value", "bar_compare", "bar_count", "bar_sum", "bar_highest"),
    }
    assert shapes.prompts == "demo"
    assert right_by_part(shapes)[()] == right_by_part(shapes, "strict")[()] == 1.0
    for one in shapes.questions:
        assert parse(one.answers[0], one.answer_type, one.choices).value is not None


def test_a_broken_image_does_not_keep_the_others_from_loading(load):
    cells = [{"bytes": files.picture(1)[:40], "path": "broken.png"}, files.stored(2)]
    rows = [row | {"image": cell} for row, cell in zip(files.chartqa_rows(), cells, strict=False)]
    broken, whole = load("chartqa", rows).questions
    assert load_image(whole.images[0]).image.mode == "RGB"
    with pytest.raises(ImageError):
        load_image(broken.images[0])


def test_prompts_of_public_benchmarks_name_the_answer_form_in_every_style(load):
    assert set(PUBLIC_ROWS) == set(BENCHMARKS) - {"shapes", "own"}
    for name, rows in PUBLIC_ROWS.items():
        public = load(name, rows)
        assert public.metric in METRICS
        prompts = load_prompts(public.prompts)
        # Limits belong to the style: the public kits cut E and R off at 16 to 128 tokens.
        assert prompts.direct.max_tokens == prompts.transfer.max_tokens
        assert 128 < prompts.explain.max_tokens < prompts.reason.max_tokens
        assert prompts.direct.max_tokens < prompts.explain.max_tokens
        for kind in {one.answer_type for one in public.questions}:
            instructions = {
                style: style_instruction(prompts, style, kind)
                for style in ("direct", "explain", "reason")
            }
            instructions["transfer"] = transfer_instruction(prompts, "It is red.", kind)
            for style, text in instructions.items():
                assert "{" not in text
                said = text.replace("its letter", "letter of")
                assert ANSWER_FORMS[kind] in said or "word or phrase" in text
                assert ("last line" in text) == (style in ("explain", "reason"))


WRONG_ROWS = [
    ("pope", "answer", "maybe", "pope.parquet, row 1: the answer is 'maybe', not yes or no."),
    ("chartqa", "type", "other", "row 1: its type is 'other', neither human nor augmented."),
    ("chartqa", "image", None, "row 1: there is no image."),
    ("mmbench", "answer", "nan", "1: it has no answer; the test split is scored by its authors"),
    ("mmbench", "answer", "E", "row 1: the answer is 'E', not the letter of one of 4 choices."),
    ("mmbench", "B", "", "row 1: an option is empty, and one after it is not."),
    ("infovqa", "answers", [], "1: it has no answers; the test split is scored by its authors"),
    ("mmmu", "answer", "?", "1: it has no answer; test splits are scored by their authors alone."),
    ("mmmu", "id", "Art-1", "'Art-1' does not name a subject, as 'validation_Art_1' does."),
    ("realworldqa", "answer", "D", "answer is 'D', not the letter of one of 3 choices."),
]


@pytest.mark.parametrize(("name", "column", "value", "message"), WRONG_ROWS)
def test_a_row_that_cannot_be_used_is_named(load, name, column, value, message):
    first, *others = PUBLIC_ROWS[name]
    with pytest.raises(DataError, match=re.escape(message)):
        load(name, [first | {column: value}, *others])


def test_rows_that_lack_a_column_or_an_image_or_share_an_id_are_named(load, tmp_path):
    rows = [{"question": "How high?", "type": "human_test", "image": files.stored()}]
    columns = "there is no 'answer'; chartqa has the columns type, question, answer, image."
    with pytest.raises(DataError, match=f"row 1: {columns}"):
        load("chartqa", rows)
    with pytest.raises(DataError, match="two questions have the id 'adversarial-1'"):
        load("pope", files.pope_rows() + files.pope_rows()[:1])
    row = {"question_id": 1, "image": "gone.jpg", "text": "Is there a cat?", "label": "no"}
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "coco_pope_random.json").write_text(json.dumps(row))
    gone = f"no image gone.jpg in {folder}, nor below it in images/, png/, val2014/."
    with pytest.raises(DataError, match=f"row 1: there is {re.escape(gone)}$"):
        load_benchmark("pope", data=folder, folder=tmp_path / "out")


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
        ("shapes", {"split": "test"}, "shapes has no split 'test'."),
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
