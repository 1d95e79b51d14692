"""Tables, figures and files of a profile: each cell against the row that it comes from."""

import csv
import io
import json
from dataclasses import replace

import pytest

from langgraph_mai.profiling.profile_report import markdown, records, tables, write_profile
from langgraph_mai.profiling.profile_rows import ProfileRow
from langgraph_mai.profiling.tables import Table

QWEN = ProfileRow(
    model="Qwen3-VL-2B",
    backend="transformers",
    dtype="bfloat16",
    device="cpu",
    attention="sdpa",
    weights="random",
    component="preprocess",
    image_side=256,
    image_tokens=64,
    repeats=9,
    bound="memory",
    gflops=1234.5,
    gigabytes=56.78,
)
PREPROCESS = replace(QWEN, median_ms=2.5, low_ms=2.25, high_ms=3.125, floor_ms=0.5)
VISION = replace(PREPROCESS, component="vision", bound="compute", median_ms=20.0, floor_ms=15.0)
TTFT = replace(
    VISION,
    component="ttft",
    query_tokens=64,
    input_tokens=128,
    output_tokens=1,
    median_ms=1500.0,
    low_ms=1400.0,
    high_ms=1650.5,
    floor_ms=375.0,
)
DECODE = replace(TTFT, component="decode", output_tokens=8, median_ms=400.0, bound="memory")
FULL = [PREPROCESS, VISION, TTFT, DECODE]
SIZES = {"model": "Qwen3-VL-2B", "backend": "transformers", "batch": "1", "side": "256"}


def cells(rows, name):
    """The rows of a table, each by its columns."""
    (table,) = [table for table in tables(rows) if table.name == name]
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (
            PREPROCESS,
            {
                "image tokens": "64",
                "median (ms)": "2.50",
                "quartiles (ms)": "2.25 to 3.12",
                "floor (ms)": "0.50",
                "bound": "memory",
                "floor reached": "20.0%",
                "paper (ms)": "0.84",
            },
        ),
        (
            VISION,
            {
                "image tokens": "64",
                "median (ms)": "20.00",
                "quartiles (ms)": "2.25 to 3.12",
                "floor (ms)": "15.00",
                "bound": "compute",
                "floor reached": "75.0%",
                "paper (ms)": "12.69",
            },
        ),
        (
            TTFT,
            {
                "image tokens": "64",
                "input": "128",
                "output": "1",
                "median (ms)": "1,500.00",
                "quartiles (ms)": "1,400.00 to 1,650.50",
                "floor (ms)": "375.00",
                "bound": "compute",
                "floor reached": "25.0%",
                "paper (ms)": "27.52",
            },
        ),
        (
            DECODE,
            {
                "image tokens": "64",
                "input": "128",
                "output": "8",
                "median (ms)": "400.00",
                "quartiles (ms)": "1,400.00 to 1,650.50",
                "tokens/s": "20.0",
                "floor (ms)": "375.00",
                "bound": "memory",
                "floor reached": "93.8%",
                "paper (ms)": "138.73",
            },
        ),
    ],
)
def test_every_cell_is_that_of_its_row(row, shown):
    assert cells(FULL, row.component) == [SIZES | shown]


def test_tokens_a_second_are_those_of_the_whole_batch():
    rows = [replace(DECODE, batch=batch, output_tokens=100) for batch in (1, 8)]
    assert [row["tokens/s"] for row in cells(rows, "decode")] == ["250.0", "2,000.0"]


@pytest.mark.parametrize("row", FULL)
@pytest.mark.parametrize(
    "change", [{"model": "another"}, {"image_side": 257}, {"batch": 8}, {"input_tokens": 129}]
)
def test_the_papers_figure_is_that_of_the_same_sizes_only(row, change):
    (shown,) = cells([replace(row, **change)], row.component)
    counted = row.component in {"ttft", "decode"}
    same = "input_tokens" in change and not counted
    assert ("paper (ms)" in shown) == same


@pytest.mark.parametrize("lacking", [["low_ms"], ["high_ms"], ["floor_ms"]])
@pytest.mark.parametrize("row", FULL)
def test_a_row_that_lacks_a_figure_has_an_empty_cell(tmp_path, row, lacking):
    edited = replace(row, batch=2, **dict.fromkeys(lacking))
    whole, shown = cells([replace(row, batch=2), edited], row.component)
    empty = {"floor (ms)", "floor reached"} if "floor_ms" in lacking else {"quartiles (ms)"}
    assert {name for name in whole if whole[name] != shown[name]} == empty
    assert {shown[name] for name in empty} == {""}
    write_profile([edited], tmp_path)
    written = json.loads((tmp_path / "profile.json").read_text())
    (median,) = [figure for figure in written if figure["unit"] == "ms"]
    given = {"value": row.median_ms, "low": row.low_ms, "high": row.high_ms}
    for name in ("value", "low", "high"):
        assert median.get(name) == (None if f"{name}_ms" in lacking else given[name])
    shares = [figure for figure in written if figure["unit"] == "share"]
    assert len(shares) == ("floor_ms" not in lacking)


def test_what_was_skipped_is_named_with_its_sizes():
    rows = [
        replace(DECODE, median_ms=None, skipped="ran out of memory"),
        replace(VISION, median_ms=None, image_side=4096, skipped="takes at least 972 s here"),
    ]
    sizes = {"model": "Qwen3-VL-2B", "backend": "transformers", "batch": "1"}
    assert cells(rows, "skipped") == [
        sizes
        | {"component": "decode", "side": "256", "query, output tokens": "64, 8"}
        | {"why": "ran out of memory"},
        sizes
        | {"component": "vision", "side": "4096", "query, output tokens": ""}
        | {"why": "takes at least 972 s here"},
    ]
    assert [table.name for table in tables(rows)] == ["skipped"]
    assert records(rows) == []


def test_the_machine_is_shown_as_it_was_last_measured():
    rows = [replace(PREPROCESS, gflops=1.0, gigabytes=1.0), VISION]
    assert cells(rows, "machine") == [
        {
            "model": "Qwen3-VL-2B",
            "backend": "transformers",
            "dtype": "bfloat16",
            "matrix products (GFLOP/s)": "1,234",
            "copies (GB/s)": "56.8",
        }
    ]


def test_every_figure_is_that_of_its_row():
    way = "Qwen3-VL-2B.transformers.bfloat16"
    figures = {figure.name: figure for figure in records(FULL)}
    assert figures[f"machine.{way}.matrix_rate"].value == 1234.5
    assert figures[f"machine.{way}.copy_bandwidth"].value == 56.78
    for row in FULL:
        sizes = f"batch1.side256.query{row.query_tokens}.out{row.output_tokens}"
        figure = figures[f"{way}.sdpa.{row.component}.{sizes}"]
        assert (figure.value, figure.low, figure.high, figure.unit) == (
            *(row.median_ms, row.low_ms, row.high_ms),
            "ms",
        )
        share = figures[f"{figure.name}.floor_share"]
        assert share.value == pytest.approx(row.floor_ms / row.median_ms, abs=1e-4)
    assert len(figures) == 2 + 2 * len(FULL)


def columns(line):
    """Cells of a line of a Markdown table: bars that are escaped end none."""
    found = line.replace("\\|", "\0").strip("|").split("|")
    return [cell.strip().replace("\0", "|") for cell in found]


@pytest.mark.parametrize("name", ["a|b", "|", "a||b|", "two\nlines", "tail\r\n", "plain"])
def test_no_text_breaks_a_table_of_markdown(name, tmp_path):
    rows = [replace(TTFT, model=name), replace(VISION, median_ms=None, skipped=name)]
    for table in tables(rows):
        title, _, *lines = table.markdown().splitlines()
        assert title == f"## {table.title}"
        assert len(lines) == 2 + len(table.rows)
        assert {len(columns(line)) for line in lines} == {len(table.header)}
        assert columns(lines[0]) == list(table.header)
        for line, row in zip(lines[2:], table.rows, strict=True):
            assert columns(line) == [" ".join(cell.splitlines()) for cell in row]
    assert all(table.markdown() in markdown(tables(rows)) for table in tables(rows))


def test_a_table_is_written_as_csv_with_its_texts_as_they_are(tmp_path):
    table = Table("t", "T", ["a", "b"], [["1|2", "x, y"], ["", "two\nlines"]])
    table.write(tmp_path)
    written = list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert written == [["a", "b"], ["1|2", "x, y"], ["", "two\nlines"]]
