"""`mai simulate` in this process, and files of the kinds that it takes."""

import csv
import json

from typer.testing import CliRunner

from langgraph_mai.tools.cli import app

ROUTES = {
    "benchmark": "Charts",
    "questions": 100,
    "verified_direct": 70,
    "verified_by_reasoning": 10,
    "reasoning_transfer": 20,
    "reason_tokens_reasoned": 80,
    "reason_tokens_transferred": 120,
    "prompt_tokens": 300,
    "score_mai": 90,
    "score_large_direct": 85,
}
TOKENS = [
    {"role": role, "benchmark": "Charts", "style": style, "mean_output_tokens": count}
    for role, style, count in [("small", "S", 2), ("small", "R", 60), ("large", "S", 2)]
]


def run(*words):
    return CliRunner().invoke(app, ["simulate", *map(str, words)])


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def profiled(folder, *models, more=()):
    """A folder as `mai profile` leaves it, with round figures; each model is slower than the last.

    Args:
        folder: Where.
        models: Their names.
        more: Rows beside the time to first token and decoding.
    """
    common = {"backend": "transformers", "dtype": "float32", "device": "cpu", "attention": "sdpa"}
    common |= {"weights": "real", "batch": 1, "image_side": 256, "query_tokens": 64}
    rows = [
        common | {"model": model, "component": component, "median_ms": milliseconds} | sizes
        for index, model in enumerate(models)
        for component, milliseconds, sizes in (
            ("ttft", 20, {"input_tokens": 128, "output_tokens": 1}),
            ("decode", 80 + index, {"input_tokens": 128, "output_tokens": 8}),
            *more,
        )
    ]
    folder.mkdir(exist_ok=True)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_csv(folder / "profile.csv", [dict.fromkeys(columns, "") | row for row in rows])
    return folder


def advised(shown):
    assert shown.exit_code == 0, shown.stderr
    return {record["name"]: record["value"] for record in json.loads(shown.stdout)}


def assert_refused(shown, said):
    assert shown.exit_code == 2
    assert said in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    assert not shown.stdout
