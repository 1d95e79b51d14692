"""Files that `mai simulate` is given: what is wrong is said in a sentence, with file and line."""

import pytest
from simulated import ROUTES, TOKENS, assert_refused, profiled, run, write_csv


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"score_mai": "500"},
            "line 2: 'score_mai' should be less than or equal to 100, and is '500'",
        ),
        ({"score_mai": "-3"}, "line 2: 'score_mai' should be greater than or equal to 0"),
        ({"score_mai": "nan"}, "line 2: 'score_mai' should be a finite number"),
        ({"mai_score": "abc"}, "line 2: 'mai_score' should be a valid number"),
        ({"score_bogus": "50"}, "the column 'score_bogus' names no strategy"),
        ({"promt_tokens": "50"}, "has a column 'promt_tokens'; call it 'prompt_tokens' if that"),
        ({"questions": "1" * 401}, "'questions' should be"),
        ({"prompt_tokens": "1e308"}, "'prompt_tokens' should be less than or equal to"),
        ({"prompt_tokens": "-40"}, "'prompt_tokens' should be greater than 0"),
        ({"prompt_tokens": "inf"}, "'prompt_tokens' should be a finite number, and is 'inf'"),
        ({"questions": "many"}, "'questions' should be a valid integer"),
        ({"questions": ""}, "the column 'questions' is empty"),
        ({"verified_direct": "-1"}, "'verified_direct' should be greater than or equal to 0"),
        ({"verified_direct": "90"}, "the routes add up to 120, which is more than the 100"),
        ({"accept_rate": "1.5"}, "'accept_rate' should be less than or equal to 1"),
        ({"ahead": "0"}, "'ahead' should be greater than or equal to 1"),
    ],
)
def test_a_wrong_figure_is_named_with_its_file_and_line(changed, said, tmp_path):
    kept = dict(ROUTES)
    if "promt_tokens" in changed:
        del kept["prompt_tokens"]
    routes = write_csv(tmp_path / "routes.csv", [kept | changed])
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    shown = run("--routes", routes, "--tokens", tokens, "--advice")
    assert_refused(shown, said)
    assert str(routes) in shown.stderr


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"name": "Charts"}], "line 2: the column 'benchmark' is missing"),
        ([ROUTES, ROUTES], "lines 2 and 3, are about the same of Charts"),
    ],
)
def test_routes_that_are_none_are_refused(rows, said, tmp_path):
    assert_refused(run("--routes", write_csv(tmp_path / "routes.csv", rows)), said)


@pytest.mark.parametrize("content", ["", "\n", ",".join(ROUTES) + "\n"])
def test_a_file_without_rows_is_refused(content, tmp_path):
    routes = tmp_path / "routes.csv"
    routes.write_text(content)
    assert_refused(run("--routes", routes, "--advice"), "has no row below its header")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"benchmark,questions\nCharts,1,2\n", "line 2 has more cells than the header"),
        (b"benchmark\n\xff\xfe\n", "is no text in UTF-8"),
        (b'benchmark\n"Charts\n', "is no CSV file"),
    ],
)
def test_a_file_of_another_kind_is_refused(content, said, tmp_path):
    routes = tmp_path / "routes.csv"
    routes.write_bytes(content)
    assert_refused(run("--routes", routes), said)


def test_a_file_as_spreadsheets_save_it_is_read(tmp_path):
    """With marks of the encoding, an index without a name, a comma at the end."""
    routes = write_csv(tmp_path / "routes.csv", [{"": 0} | ROUTES])
    header, *rows = routes.read_text().splitlines()
    routes.write_text("\n".join([header, *(f"{row}," for row in rows), ""]))
    routes.write_bytes(b"\xef\xbb\xbf" + routes.read_bytes().replace(b"\n", b"\r\n"))
    tokens = write_csv(tmp_path / "tokens.csv", TOKENS)
    shown = run("--routes", routes, "--tokens", tokens, "--advice")
    assert shown.stdout.startswith("Charts: mai is the fastest")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mean_output_tokens": "inf"}, "line 2: 'mean_output_tokens' should be a finite number"),
        ({"mean_output_tokens": "-2"}, "should be greater than or equal to 0"),
        ({"role": ""}, "says neither which 'model' nor which 'role'"),
        ({"style": "r"}, "lines 2 and 3, are about the same of Charts"),
        ({"benchmark": "Maps"}, "has no tokens of small_direct on Charts; add rows for these"),
    ],
)
def test_wrong_tokens_are_named_with_their_file_and_line(changed, said, tmp_path):
    routes = write_csv(tmp_path / "routes.csv", [ROUTES])
    tokens = write_csv(tmp_path / "tokens.csv", [TOKENS[0] | changed, *TOKENS[1:]])
    shown = run("--routes", routes, "--tokens", tokens)
    assert_refused(shown, said)
    assert str(tokens) in shown.stderr


@pytest.mark.parametrize("end", [b'm,"needs 5 GB, an', "m,\u4e2d".encode()[:-1], b"m,tra", b""])
def test_a_last_row_that_was_cut_off_is_left_out(tmp_path, end):
    path = profiled(tmp_path, "A", "B") / "profile.csv"
    path.write_bytes(path.read_bytes() + end)
    assert run("--profile", tmp_path, "--advice").exit_code == 0


def test_a_last_row_without_the_end_of_its_line_counts(tmp_path):
    path = profiled(tmp_path, "A", "B") / "profile.csv"
    path.write_bytes(path.read_bytes().rstrip())
    assert run("--profile", tmp_path, "--advice").exit_code == 0


def test_a_wrong_figure_of_a_profile_is_named_with_its_line(tmp_path):
    path = profiled(tmp_path, "A", "B") / "profile.csv"
    assert run("--profile", tmp_path, "--advice").exit_code == 0
    for wrong in ("nan", "-1", "fast"):
        path.write_text(path.read_text().replace(",80", f",{wrong}", 1))
        assert_refused(run("--profile", tmp_path), "line 3: 'median_ms' should be")
        profiled(tmp_path, "A", "B")
