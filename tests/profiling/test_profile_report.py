"""Tables, figures, plots and files of a profile: each cell against its row."""

import csv
import io
import json
from dataclasses import replace

import pytest

from langgraph_mai.profiling.profile_report import (
    decode_line,
    records,
    tables,
    write_profile,
)
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
RUN = {"model": "Qwen3-VL-2B", "backend": "transformers"}


def cells(rows, name):
    """The rows of a table, each by its columns."""
    (table,) = [table for table in tables(rows) if table.name == name]
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


_TIMES = "median (ms), quartiles (ms)"
_FLOOR = "floor (ms), bound, floor reached, paper (ms)"
COLUMNS = {
    "preprocess": (
        f"batch, side, image tokens, {_TIMES}, {_FLOOR}",
        "1, 256, 64, 2.50, 2.25 to 3.12, 0.50, memory, 20.0%, 0.84",
    ),
    "vision": (
        f"batch, side, image tokens, {_TIMES}, {_FLOOR}",
        "1, 256, 64, 20.00, 2.25 to 3.12, 15.00, compute, 75.0%, 12.69",
    ),
    "ttft": (
        f"batch, side, image tokens, input, output, {_TIMES}, {_FLOOR}",
        "1, 256, 64, 128, 1, 1,500.00, 1,400.00 to 1,650.50, 375.00, compute, 25.0%, 27.52",
    ),
    "decode": (
        f"batch, side, image tokens, input, output, {_TIMES}, tokens/s, {_FLOOR}",
        "1, 256, 64, 128, 8, 400.00, 1,400.00 to 1,650.50, 20.0, 375.00, memory, 93.8%, 138.73",
    ),
}


def test_every_cell_is_that_of_its_row():
    for component, (header, row) in COLUMNS.items():
        shown = dict(zip(header.split(", "), row.split(", "), strict=True))
        assert cells(FULL, component) == [RUN | shown]
    rows = [replace(DECODE, batch=batch, output_tokens=100) for batch in (1, 8)]
    assert [row["tokens/s"] for row in cells(rows, "decode")] == ["250.0", "2,000.0"]


def test_the_papers_figure_is_that_of_the_same_sizes_only():
    for row in FULL:
        for change in ({"model": "x"}, {"image_side": 257}, {"batch": 8}, {"input_tokens": 129}):
            (shown,) = cells([replace(row, **change)], row.component)
            counted = row.component in {"ttft", "decode"}
            assert ("paper (ms)" in shown) == ("input_tokens" in change and not counted)


@pytest.mark.parametrize("lacking", ["low_ms", "high_ms", "floor_ms"])
def test_a_row_without_a_figure_has_an_empty_cell(tmp_path, lacking):
    for row in FULL:
        edited = replace(row, batch=2, **{lacking: None})
        whole, shown = cells([replace(row, batch=2), edited], row.component)
        empty = {"floor (ms)", "floor reached"} if lacking == "floor_ms" else {"quartiles (ms)"}
        assert {name for name in whole if whole[name] != shown[name]} == empty
        assert {shown[name] for name in empty} == {""}
        write_profile([edited], tmp_path)
        written = json.loads((tmp_path / "profile.json").read_text())
        (median,) = [figure for figure in written if figure["unit"] == "ms"]
        for name in ("low", "high"):
            expected = None if lacking == f"{name}_ms" else getattr(row, f"{name}_ms")
            assert median.get(name) == expected
        shares = [figure for figure in written if figure["unit"] == "share"]
        assert len(shares) == (lacking != "floor_ms")


def test_what_was_skipped_is_named_with_its_sizes_and_the_machine_as_last_measured():
    rows = [
        replace(DECODE, median_ms=None, skipped="ran out of memory"),
        replace(VISION, median_ms=None, image_side=4096, skipped="takes at least 972 s here"),
    ]
    header = ("batch", "component", "side", "query, output tokens", "why")
    shown = [
        ("1", "decode", "256", "64, 8", "ran out of memory"),
        ("1", "vision", "4096", "", "takes at least 972 s here"),
    ]
    expected = [RUN | dict(zip(header, line, strict=True)) for line in shown]
    assert cells(rows, "skipped") == expected
    rates = {"matrix products (GFLOP/s)": "1,234", "copies (GB/s)": "56.8"}
    measured = [replace(PREPROCESS, gflops=1.0, gigabytes=1.0), VISION]
    assert cells(measured, "machine") == [RUN | {"dtype": "bfloat16"} | rates]


def test_every_figure_is_that_of_its_row():
    way = "Qwen3-VL-2B.transformers.bfloat16"
    figures = {figure.name: figure for figure in records(FULL)}
    assert figures[f"machine.{way}.matrix_rate"].value == 1234.5
    assert figures[f"machine.{way}.copy_bandwidth"].value == 56.78
    for row in FULL:
        sizes = f"batch1.side256.query{row.query_tokens}.out{row.output_tokens}"
        figure = figures[f"{way}.sdpa.{row.component}.{sizes}"]
        assert (figure.value, figure.low, figure.high) == (row.median_ms, row.low_ms, row.high_ms)
        share = figures[f"{figure.name}.floor_share"]
        assert share.value == pytest.approx(row.floor_ms / row.median_ms, abs=1e-4)
    assert len(figures) == 2 + 2 * len(FULL)


def columns(line):
    """Cells of a line of a Markdown table: bars that are escaped end none."""
    found = line.replace("\\|", "\0").strip("|").split("|")
    return [cell.strip().replace("\0", "|") for cell in found]


def test_no_text_breaks_a_table(tmp_path):
    for name in ("a|b", "|", "a||b|", "two\nlines", "tail\r\n", "plain"):
        rows = [replace(TTFT, model=name), replace(VISION, median_ms=None, skipped=name)]
        write_profile(rows, tmp_path)
        for table in tables(rows):
            title, _, *lines = table.markdown().splitlines()
            assert title == f"## {table.title}"
            assert len(lines) == 2 + len(table.rows)
            assert {len(columns(line)) for line in lines} == {len(table.header)}
            for line, row in zip(lines[2:], table.rows, strict=True):
                assert columns(line) == [" ".join(cell.splitlines()) for cell in row]
            assert table.markdown() in (tmp_path / "profile.md").read_text()
    table = Table("t", "T", ["a", "b"], [["1|2", "x, y"], ["", "two\nlines"]])
    table.write(tmp_path)
    written = list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert written == [["a", "b"], ["1|2", "x, y"], ["", "two\nlines"]]


COMMON = ProfileRow("m", "transformers", "float32", "cpu", "sdpa", "real", "ttft", input_tokens=100)


def ttft(tokens, milliseconds):
    sizes = {"image_side": 256, "query_tokens": tokens - 64, "input_tokens": tokens}
    return replace(COMMON, output_tokens=1, median_ms=milliseconds, **sizes)


def decode(side, query, tokens, milliseconds):
    sizes = {"image_side": side, "query_tokens": query, "output_tokens": tokens}
    return replace(COMMON, component="decode", median_ms=milliseconds, **sizes)


def test_the_line_of_a_model_is_that_of_one_prompt():
    """Images of two sides may take as many tokens: their times are not joined."""
    rows = [decode(512, 64, n, 3.0 * n) for n in (8, 128)]
    rows += [decode(256, 64, n, 2.0 * n) for n in (128, 8)]
    rows += [decode(256, 256, 8, 99.0), replace(decode(256, 64, 8, 50.0), batch=8)]
    line = [(row.output_tokens, row.median_ms) for row in decode_line(rows)]
    assert line == [(8, 16), (128, 256)]
    assert decode_line([ttft(128, 20.0)]) == []


def test_there_are_plots_of_what_was_measured_only(tmp_path):
    skipped = replace(decode(256, 64, 8, 1.0), median_ms=None, skipped="too long")
    for index, (rows, plots) in enumerate(
        [
            ([skipped], set()),
            ([decode(256, 64, 8, 16.0), skipped], {"decode.png"}),
        ]
    ):
        folder = tmp_path / str(index)
        folder.mkdir()
        write_profile(rows, folder)
        assert {path.name for path in folder.glob("*.png")} == plots
