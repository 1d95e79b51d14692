"""What `mai evaluate` prints for people."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_KINDS = ("calls", "input_tokens", "cached_tokens", "output_tokens")


def show_evaluation(done: dict[str, Any], folder: str) -> None:
    """Print each strategy's main score by protocol, what the calls cost, and where the results are.

    Args:
        done: What the command found out.
        folder: Where the results are.
    """
    console = Console(highlight=False)
    metric = done["headline"]
    figures = [one for one in done["summary"] if not one["group"] and one["metric"] == metric]
    protocols = list(dict.fromkeys(one["protocol"] for one in figures))
    table = _table(
        "strategy", "questions", *(f"{metric.replace('_', ' ')}\n{name}" for name in protocols)
    )
    for strategy in done["strategies"]:
        own = {one["protocol"]: one for one in figures if one["strategy"] == strategy}
        asked = max((one["questions"] for one in own.values()), default=0)
        table.add_row(strategy, str(asked), *(_score(own.get(name)) for name in protocols))
    console.print(table)
    for strategy, rate in done["accept_rates"].items():
        sentence = f"{strategy}: {_share(rate)} of the draft's tokens are in the outputs."
        console.print(Text(sentence, "dim"))
    stored = sum(done["calls_stored"].values())
    console.print(Text(f"{done['calls_made']} calls made now, {stored} stored.", "dim"))
    if done["failures"]:
        count = len(done["failures"])
        sentence = f"{count} results failed and are in no score; the same command tries them again."
        console.print(Text(sentence, "bold red"))
    console.print(Text(f"Results are in {folder}; `mai report {folder}` shows tables.", "dim"))


def show_timing(done: dict[str, Any], folder: str) -> None:
    """Print each strategy's times, and its calls and tokens by role and style.

    Args:
        done: What the command found out.
        folder: Where the results are.
    """
    console = Console(highlight=False)
    found = {(one["strategy"], one["name"]): one["value"] for one in done["timing"]}
    drafted = any(name == "accept_rate" for _, name in found)
    columns = ("total (s)", "a question (s)", "median", "p95", "calls", "over mai")
    times = _table("strategy", *columns, *(["accept rate"] if drafted else []))
    for strategy in done["strategies"]:
        names = ("seconds_per_question", "seconds_per_question.median", "seconds_per_question.p95")
        times.add_row(
            strategy,
            _number(found[strategy, "total_seconds"], 1),
            *(_number(found[strategy, name], 3) for name in names),
            str(found[strategy, "calls"]),
            _number(found.get((strategy, "ratio.mai")), 2),
            *([_share(found.get((strategy, "accept_rate")))] if drafted else []),
        )
    console.print(times)
    calls = _table("strategy", "role", "style", "calls", "tokens in", "cached", "out")
    for strategy, name in found:
        kind, _, call = name.partition(".")
        if kind == "calls" and call:
            values = [found[strategy, f"{one}.{call}"] for one in _KINDS]
            calls.add_row(
                strategy, *call.split("."), *("-" if v is None else str(v) for v in values)
            )
    console.print(calls)
    sentence = (
        f"{done['questions']} questions, {done['concurrency']} at a time; times are in {folder}."
    )
    console.print(Text(sentence, "dim"))


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        left = number == 0 or column in {"role", "style"}
        table.add_column(
            column, justify="left" if left else "right", no_wrap=number == 0, overflow="fold"
        )
    return table


def _score(figure: dict[str, Any] | None) -> str:
    if figure is None or figure["value"] is None:
        return "-"
    value = f"{100 * figure['value']:.1f}"
    if figure["low"] is None:
        return value
    return f"{value} ({100 * figure['low']:.1f}-{100 * figure['high']:.1f})"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"
