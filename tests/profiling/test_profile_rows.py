"""`profile.csv`: what is opened, what is refused, and what is never lost."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.profiling.csv_rows import ProfilingInputError
from langgraph_mai.profiling.profile_rows import (
    SETTINGS,
    ProfileFile,
    ProfileRow,
    impossible_rows,
    read_rows,
)

COLUMNS = [field.name for field in fields(ProfileRow)]
FIRST = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft", input_tokens=80)
ROWS = [
    replace(FIRST, median_ms=12.5, low_ms=12.0, high_ms=13.25, floor_ms=5.0, repeats=9),
    replace(FIRST, component="decode", output_tokens=8, skipped="ran out of memory, twice"),
    replace(FIRST, component="decode", output_tokens=4, median_ms=70.0, gflops=100.0),
]
ANOTHER = replace(FIRST, model="another", median_ms=1.0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder that every example of a property starts anew."""
    return tmp_path_factory.mktemp("rows")


def opened(folder: Path, content: bytes) -> ProfileFile:
    (folder / "profile.csv").write_bytes(content)
    return ProfileFile(folder)


def csv_bytes(columns, rows=ROWS) -> bytes:
    lines = [columns, *([getattr(row, name) for name in columns] for row in rows)]
    shown = [["" if cell is None else str(cell) for cell in line] for line in lines]
    return "".join(",".join(f'"{cell}"' for cell in line) + "\r\n" for line in shown).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"date,amount\n2,3\n",
        b"date,amount\n",
        b"notes that somebody wrote",
        csv_bytes(COLUMNS[:-1], []),
        csv_bytes(COLUMNS[::-1]),
        csv_bytes([*COLUMNS, COLUMNS[0]]),
        csv_bytes(COLUMNS, []) + b"a,b,c" + b"," * len(COLUMNS) + b"\n",
        csv_bytes(COLUMNS, [replace(FIRST, median_ms=-1.0)]),
        b"\x00\xff\xfe\x01" * 99,
        b"x" * 200_000,
    ],
)
def test_what_is_no_profile_is_refused_by_name_and_stays(tmp_path, content):
    with pytest.raises(ProfilingInputError) as refusal:
        opened(tmp_path, content)
    assert str(tmp_path / "profile.csv") in str(refusal.value)
    assert (tmp_path / "profile.csv").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["profile.csv"]


@given(part=st.floats(0, 1, exclude_max=True))
def test_a_row_cut_short_costs_that_row(shared, part):
    whole = csv_bytes(COLUMNS, ROWS[:1])
    last = csv_bytes(COLUMNS, [ROWS[0], ROWS[2]]).removeprefix(whole).replace(b'"', b"")
    file = opened(shared, whole + last[: int(part * len(last))])
    assert file.rows[0] == ROWS[0]
    file.add(ANOTHER)
    assert read_rows(shared / "profile.csv") == file.rows
    assert file.rows[-1] == ANOTHER


def test_a_whole_file_is_only_appended_to(tmp_path):
    file = ProfileFile(tmp_path)
    for row in ROWS:
        file.add(row)
    path = tmp_path / "profile.csv"
    before, node = path.read_bytes(), path.stat().st_ino
    again = ProfileFile(tmp_path)
    assert again.rows == ROWS
    again.add(ANOTHER)
    assert path.stat().st_ino == node
    assert path.read_bytes().startswith(before)
    assert len(read_rows(path)) == len(ROWS) + 1


def test_a_measured_row_replaces_a_skipped_one(tmp_path):
    file = ProfileFile(tmp_path)
    for row in ROWS:
        file.add(row)
    assert file.find(ROWS[0]) == ROWS[0]
    assert file.find(ROWS[1]) is None
    assert file.find(FIRST) == ROWS[0]
    measured = replace(ROWS[1], skipped="", median_ms=3.0)
    file.add(measured)
    assert ProfileFile(tmp_path).rows == [ROWS[0], ROWS[2], measured]
    assert file.find(ROWS[1]) == measured
    unmeasured = opened(tmp_path, csv_bytes(COLUMNS, [FIRST]))
    assert unmeasured.rows == [FIRST]
    assert unmeasured.find(FIRST) is None


def test_a_model_that_did_not_load_is_named_until_the_next_run(tmp_path):
    gone = [
        replace(FIRST, model=name, component="weights", skipped="is not there") for name in "ab"
    ]
    file = ProfileFile(tmp_path)
    for row in [gone[0], *ROWS, gone[1]]:
        file.add(row)
    assert read_rows(tmp_path / "profile.csv") == file.rows == [gone[0], *ROWS, gone[1]]
    assert ProfileFile(tmp_path).rows == read_rows(tmp_path / "profile.csv") == ROWS


def test_the_share_is_the_floor_over_the_median():
    cases = [(20.0, 5.0, 0.25), (4.0, 6.0, 1.5), (8.0, 0.0, 0.0), (None, 5.0, None)]
    for median, floor, share in [*cases, (2.0, None, None)]:
        assert replace(FIRST, median_ms=median, floor_ms=floor).share == share


def test_a_first_token_faster_than_its_encoder_is_named_with_the_same_settings_only():
    first = replace(FIRST, median_ms=5.0)
    vision = replace(first, component="vision", median_ms=9.0)
    (sentence,) = impossible_rows([vision, first])
    assert "took 9.0 ms and the first token, with it, 5.0 ms" in sentence
    for setting in SETTINGS:
        other = 0.5 if setting in {"memory", "threads"} else "other"
        assert list(impossible_rows([replace(vision, **{setting: other}), first])) == []
