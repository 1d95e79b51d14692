import codecs
import json

import public_files as files
import pytest

from langgraph_mai.benchmarks.datasets import DataError, load_benchmark
from langgraph_mai.benchmarks.metrics import score

PLAIN = {"question": "How many stars are there?", "images": "a.png", "answers": "3"}


@pytest.fixture
def write(tmp_path):
    (tmp_path / "a.png").write_bytes(files.picture())

    def written(*lines):
        path = tmp_path / "mine.jsonl"
        path.write_text(
            "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines),
            encoding="utf-8",
        )
        return path

    return written


def load(path, **options):
    return load_benchmark("own", data=path, folder=path.parent / "out", **options)


def test_questions_of_ones_own(write, tmp_path):
    path = write(
        PLAIN,
        "",
        {
            "id": "left",
            "question": "Which is left?",
            "images": ["a.png", str(tmp_path / "a.png"), "https://example.org/b.png"],
            "choices": ["the star", "the ball"],
            "answers": ["the ball"],
            "group": {"page": "1"},
        },
        {**PLAIN, "question": "Is it red?\nA. yes\nB. no", "answers": ["b"]},
        {**PLAIN, "answer_type": "short_text", "answers": ["three", "3"]},
    )
    own = load(path)
    number, choice, listed, text = own.questions
    assert (own.name, own.prompts, own.metric) == ("mine", "default", "accuracy")
    assert (number.id, number.answer_type, number.answers) == ("1", "number", ("3",))
    assert number.images == (str(tmp_path / "a.png"),)
    assert (choice.id, choice.answer_type, choice.answers) == ("left", "choice", ("B",))
    assert choice.images[2] == "https://example.org/b.png"
    assert choice.choices == ("the star", "the ball")
    assert (listed.id, listed.question, listed.answers) == ("4", "Is it red?", ("B",))
    assert (text.answer_type, text.answers) == ("short_text", ("three", "3"))
    said = {"1": "There are three.", "left": "B", "4": "yes", "5": "3"}
    values = {
        (one.protocol, one.group.get("page")): (one.value, one.questions)
        for one in score(own, said)
        if one.metric == "accuracy"
    }
    assert values == {
        ("typed", None): (0.75, 4),
        ("typed", "1"): (1.0, 1),
        ("strict", None): (0.5, 4),
        ("strict", "1"): (1.0, 1),
    }
    assert [one.id for one in load(path, limit=2).questions] == ["1", "left"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "it is not JSON: "),
        ("[1, 2]", "it must be an object in braces, not [1, 2]."),
        ({**PLAIN, "anwsers": "3"}, "unknown key 'anwsers'; a question has id, question, images"),
        ({"question": "What?", "images": "a.png"}, "the key 'answers' is missing."),
        ({**PLAIN, "answers": 3}, "'answers': Input should be a valid string (it is 3)."),
        ({**PLAIN, "question": "  "}, "'question': String should have at least 1 character"),
        ({**PLAIN, "answer_type": "colour"}, "'answer_type': Input should be 'yes_no', 'choice'"),
        ({**PLAIN, "images": ["b.png"]}, "'images': there is no file "),
        ({**PLAIN, "images": "ftp://example.org/b.png"}, "'images': "),
        ({**PLAIN, "choices": ["1"]}, "'choices': a choice needs at least two options."),
        ({**PLAIN, "answer_type": "choice"}, "'choices': a choice needs at least two options."),
        (
            {**PLAIN, "choices": ["1", "2"]},
            "'answers': '3' is neither one of the choices nor the letter of one.",
        ),
        (
            {**PLAIN, "choices": ["1", "3"], "answer_type": "number"},
            "'answer_type': a question with choices is a choice, not number.",
        ),
        ({**PLAIN, "id": "1"}, "'id': another question has '1' too."),
        ("[" * 100_000, "it is nested too deeply."),
        ({**PLAIN, "group": {"a": "x"}, "images": "x" * 5_000}, "'images': there is no file "),
        ({**PLAIN, "images": "~nosuchuser/x.png"}, "'images': The home folder in '~nosuchuser/x"),
        ({**PLAIN, "images": "a\0.png"}, "'images': there is no file "),
        (json.dumps(PLAIN).replace("How", "\\ud800"), "it is not JSON: "),
        (json.dumps(PLAIN).replace("How", "\\ud800\\ud800"), "it is not JSON: "),
        ({**PLAIN, "answers": float("nan")}, "'answers': "),
        ('{"question": "What?", "question": "Who?"}', "the key 'question' is given twice."),
        ("null", "it must be an object in braces, not null."),
        ('{"question": 1' + "0" * 5_000 + "}", "it is not JSON: "),
    ],
)
def test_an_error_is_named_with_its_line_and_key(write, line, message):
    path = write(PLAIN, "", line)
    with pytest.raises(DataError) as raised:
        load(path)
    assert f"{path}, line 3: {message}" in str(raised.value)


def test_a_file_that_is_not_there_or_holds_nothing_or_a_list(write, tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "gone.jsonl")
    for line, message in (("", "holds no questions"), ([PLAIN], "is a JSON list; write one quest")):
        with pytest.raises(DataError, match=message):
            load(write(line))


def test_options_with_letters_are_not_lettered_twice(write):
    lettered = {**PLAIN, "choices": ["A. 1", "(B) 3"], "answers": "B. 3"}
    plain = {**PLAIN, "choices": ["A. Smith", "the B. road"], "answers": "A", "id": "2"}
    first, second = load(write(lettered, plain)).questions
    assert (first.choices, first.answers) == (("1", "3"), ("B",))
    assert second.choices == ("A. Smith", "the B. road")


def test_only_line_feeds_end_a_line_and_other_encodings_are_named(write):
    texts = [f"How many{mark}stars are there?" for mark in "\u2028\u2029\u0085\x0b\u001c"]
    lines = [json.dumps({**PLAIN, "question": text}, ensure_ascii=False) for text in texts]
    path = write(*lines)
    assert [one.question for one in load(path).questions] == texts
    # As Windows writes it.
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes().replace(b"\n", b"\r\n"))
    assert [one.question for one in load(path).questions] == texts
    path = write(PLAIN, json.dumps({**PLAIN, "question": "Größer?"}, ensure_ascii=False))
    text, said = path.read_text(encoding="utf-8"), "line 2: it is not UTF-8; save the file as UTF-8"
    for encoding, message in {
        "utf-16": "is UTF-16; save it as UTF-8.",
        "utf-16-le": said,
        "latin-1": said,
    }.items():
        path.write_bytes(text.encode(encoding))
        with pytest.raises(DataError, match=message):
            load(path)


def test_errors_come_together(write):
    path = write(PLAIN, "{", *[{**PLAIN, "answers": 3}] * 12)
    with pytest.raises(DataError) as raised:
        load(path)
    lines = str(raised.value).splitlines()
    assert lines[0] == f"{path}:"
    assert lines[1].startswith("line 2: it is not JSON")
    assert [line.partition(":")[0] for line in lines[2:11]] == [f"line {n}" for n in range(3, 12)]
    assert lines[11:] == ["and 3 more."]
