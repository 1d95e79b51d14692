"""`profile.csv`: what is opened, what is refused, and what is never lost."""

import csv
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.profiling.errors import ProfilingInputError
from langgraph_mai.profiling.profile_rows import ProfileFile, ProfileRow, read_rows

COLUMNS = [field.name for field in fields(ProfileRow)]
NEEDED = [field.name for field in fields(ProfileRow) if field.default is MISSING]
FIRST = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft", input_tokens=80)
ROWS = [
    replace(FIRST, median_ms=12.5, low_ms=12.0, high_ms=13.25, floor_ms=5.0, repeats=9),
    replace(FIRST, component="decode", output_tokens=8, skipped="ran out of memory, twice"),
    replace(FIRST, component="decode", output_tokens=4, median_ms=70.0, gflops=100.0),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder that every example of a property starts anew."""
    return tmp_path_factory.mktemp("rows")


def opened(folder: Path, text: str | bytes) -> ProfileFile:
    content = text if isinstance(text, bytes) else text.encode()
    (folder / "profile.csv").write_bytes(content)
    return ProfileFile(folder)


def csv_text(columns, rows=ROWS) -> str:
    lines = [columns, *([getattr(row, name) for name in columns] for row in rows)]
    shown = [["" if cell is None else str(cell) for cell in line] for line in lines]
    return "".join(",".join(f'"{cell}"' for cell in line) + "\r\n" for line in shown)


@pytest.mark.parametrize(
    "content",
    [
        "date,amount\n2,3\n",
        "date,amount\n",
        "notes that somebody wrote",
        csv_text([*COLUMNS, "remark"], []),
        csv_text(["remark", *COLUMNS], []),
        csv_text(COLUMNS[::-1]),
        csv_text([*COLUMNS, COLUMNS[0]]),
        csv_text(NEEDED[1:], []),
        csv_text(COLUMNS, []) + "a,b,c" + "," * len(COLUMNS) + "\n",
        csv_text(COLUMNS, [replace(FIRST, median_ms=-1.0)]),
        b"\x00\xff\xfe\x01" * 99,
        b"x" * 200_000,
    ],
)
def test_what_is_no_profile_is_refused_by_name_and_stays(tmp_path, content):
    with pytest.raises(ProfilingInputError) as refusal:
        opened(tmp_path, content)
    assert str(tmp_path / "profile.csv") in str(refusal.value)
    kept = (tmp_path / "profile.csv").read_bytes()
    assert kept == (content if isinstance(content, bytes) else content.encode())
    assert [path.name for path in tmp_path.iterdir()] == ["profile.csv"]


def test_a_folder_of_that_name_is_refused(tmp_path):
    (tmp_path / "profile.csv").mkdir()
    with pytest.raises(ProfilingInputError, match="cannot be read"):
        ProfileFile(tmp_path)


@given(lacking=st.sets(st.sampled_from([name for name in COLUMNS if name not in NEEDED])))
def test_a_profile_of_an_older_version_is_taken_over(shared, lacking):
    columns = [name for name in COLUMNS if name not in lacking]
    file = opened(shared, csv_text(columns))
    empty = {field.name: field.default for field in fields(ProfileRow) if field.name in lacking}
    assert file.rows == [replace(row, **empty) for row in ROWS]
    assert read_rows(shared / "profile.csv") == file.rows
    added = replace(FIRST, model="another", median_ms=1.0)
    file.add(added)
    assert read_rows(shared / "profile.csv") == [*file.rows[:-1], added]
    with (shared / "profile.csv").open(newline="") as written:
        assert next(csv.reader(written)) == COLUMNS


@given(part=st.floats(0, 1, exclude_max=True))
def test_a_row_cut_short_costs_that_row(shared, part):
    whole = csv_text(COLUMNS, ROWS[:1]).encode()
    last = csv_text(COLUMNS, [ROWS[0], ROWS[2]]).encode().removeprefix(whole).replace(b'"', b"")
    file = opened(shared, whole + last[: int(part * len(last))])
    assert file.rows[0] == ROWS[0]
    added = replace(FIRST, model="another", median_ms=1.0)
    file.add(added)
    assert read_rows(shared / "profile.csv") == file.rows
    assert file.rows[-1] == added


def test_a_whole_file_is_only_added_to(tmp_path):
    file = ProfileFile(tmp_path)
    for row in ROWS:
        file.add(row)
    path = tmp_path / "profile.csv"
    before, node = path.read_bytes(), path.stat().st_ino
    again = ProfileFile(tmp_path)
    assert again.rows == ROWS
    again.add(replace(FIRST, model="another", median_ms=1.0))
    assert path.stat().st_ino == node
    assert path.read_bytes().startswith(before)
    assert len(read_rows(path)) == len(ROWS) + 1


def test_a_measured_row_takes_the_place_of_a_skipped_one(tmp_path):
    file = ProfileFile(tmp_path)
    for row in ROWS:
        file.add(row)
    assert file.find(ROWS[0]) == ROWS[0]
    assert file.find(ROWS[1]) is None
    measured = replace(ROWS[1], skipped="", median_ms=3.0)
    file.add(measured)
    assert ProfileFile(tmp_path).rows == [ROWS[0], ROWS[2], measured]
    assert file.find(ROWS[1]) == measured


def test_a_model_that_could_not_be_had_is_named_until_the_next_run(tmp_path):
    gone = [
        replace(FIRST, model=name, component="weights", skipped="is not there") for name in "ab"
    ]
    file = ProfileFile(tmp_path)
    for row in [gone[0], *ROWS, gone[1]]:
        file.add(row)
    assert read_rows(tmp_path / "profile.csv") == file.rows == [gone[0], *ROWS, gone[1]]
    assert ProfileFile(tmp_path).rows == ROWS
    assert read_rows(tmp_path / "profile.csv") == ROWS


def test_a_row_without_its_median_is_measured_again(tmp_path):
    file = opened(tmp_path, csv_text(COLUMNS, [FIRST]))
    assert file.rows == [FIRST]
    assert file.find(FIRST) is None


@pytest.mark.parametrize(
    ("median", "floor", "share"),
    [(20.0, 5.0, 0.25), (4.0, 6.0, 1.5), (8.0, 0.0, 0.0), (None, 5.0, None), (2.0, None, None)],
)
def test_the_share_is_the_floor_over_the_median(median, floor, share):
    assert replace(FIRST, median_ms=median, floor_ms=floor).share == share
