"""Measure a demo pair: `python -m langgraph_mai.demo.evaluation --out DIR`.

The evaluation is that of `mai evaluate shapes`; run again, it resumes. Times come from
`mai evaluate shapes --timed --out DIR`, if that was run before.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from ..benchmarks.datasets import load_shapes
from ..benchmarks.evaluation.results import Result, texts
from ..benchmarks.evaluation.runner import evaluate
from ..benchmarks.evaluation.timed import TIMED_FILE
from ..benchmarks.metrics import grades
from ..benchmarks.question import Benchmark
from ..benchmarks.statistics import Estimate, mean, paired_difference, proportion, ratio
from ..configs.files import write_whole
from ..models.pairs import load_pair
from .held_out import COUNT, REPORT_SEED

STRATEGIES = (
    "small_direct",
    "small_explain",
    "small_reason",
    "large_direct",
    "large_explain",
    "large_reason",
    "small_two_stage",
    "large_two_stage",
    "full_transfer",
    "mai",
)
_Value = TypeVar("_Value")
_COMPARED = ("small_direct", "small_reason", "large_direct", "large_reason", "full_transfer", "mai")


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number and what it should be.

    Attributes:
        name: What was measured.
        estimate: In units of `unit`.
        unit: "%", "points" or "times".
        least: The least that it should be; None if there is no such aim.
        most: The most that it should be; None if there is no such aim.
    """

    name: str
    estimate: Estimate
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the value is within the aim; None without an aim or a value."""
        value = self.estimate.value
        if value is None or (self.least is None and self.most is None):
            return None
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    @property
    def aim(self) -> str:
        """The aim in words; empty if there is none."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"at least {self.least:g}"
        return "" if self.most is None else f"at most {self.most:g}"


class Measured:
    """What the strategies answered to a set of held-out questions.

    Attributes:
        right: By strategy, whether each question was answered right, in the questions' order.
        routes: The cascade's route on each question.
    """

    def __init__(self, benchmark: Benchmark, results: Sequence[Result]) -> None:
        """Grade every strategy's results.

        Args:
            benchmark: The questions.
            results: A result for each question and strategy.
        """
        ids = [question.id for question in benchmark.questions]
        self._kinds = [question.group["kind"] for question in benchmark.questions]
        self._results = {(one["strategy"], one["id"]): one for one in results}
        self._ids = ids
        graded = {name: grades(benchmark, texts(results, name))["typed"] for name in STRATEGIES}
        self.right = {name: [graded[name].get(one, 0) == 1 for one in ids] for name in STRATEGIES}
        self.routes = [self._results["mai", one]["route"] for one in ids]

    def figures(self) -> list[Figure]:
        """Return what a pair must show for the cascade to be worth its while."""
        right, mai = self.right, self.right["mai"]
        direct = [route == "direct" for route in self.routes]
        transferred = [route == "transferred" for route in self.routes]
        agreed = zip(direct, mai, strict=True)
        wrong = [not hit for hit in right["small_reason"]]
        transfer = right["full_transfer"]
        spoiled = [not hit for hit in _where(transfer, right["small_reason"])]
        return [
            self._gain("large_reason", "large_direct", 10),
            self._gain("small_reason", "small_direct", 15),
            self._gain("mai", "large_reason", -1),
            self._gain("mai", "large_direct", 8),
            self._gain("mai", "small_reason", 2),
            _share("direct answers agree", direct, 50, 80),
            _share("right where they agree", _where(mai, direct), 97),
            _share("route reasoned", [route == "reasoned" for route in self.routes]),
            _share("route transferred", transferred, 5, 20),
            self._gain("mai", "large_direct", 15, transferred, " where transferred"),
            _share("wrong reasonings repaired by transfer", _where(transfer, wrong), 50),
            _share("right reasonings spoiled by transfer", spoiled, None, 3),
            _share("same wrong direct answer of both", [a and not b for a, b in agreed]),
        ]

    def accuracies(self) -> list[tuple[str, Estimate, Estimate]]:
        """Return each strategy's share of right answers and mean output tokens per question."""
        return [
            (name, _scaled(proportion(hits)), mean([self._tokens(name, one) for one in self._ids]))
            for name, hits in self.right.items()
        ]

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Return the shares of right answers in percent, by kind of question and strategy."""
        return {
            kind: {
                name: 100 * sum(hits) / len(hits)
                for name in _COMPARED
                if (hits := _where(self.right[name], [one == kind for one in self._kinds]))
            }
            for kind in dict.fromkeys(self._kinds)
        }

    def _gain(
        self,
        first: str,
        second: str,
        least: float,
        chosen: Sequence[bool] | None = None,
        where: str = "",
    ) -> Figure:
        pairs = list(zip(self.right[first], self.right[second], strict=True))
        kept = pairs if chosen is None else _where(pairs, chosen)
        found = paired_difference([float(a) - float(b) for a, b in kept])
        return Figure(f"{first} - {second}{where}", _scaled(found), "points", least)

    def _tokens(self, strategy: str, question: str) -> float:
        calls = self._results[strategy, question]["calls"]
        return float(sum(call["output_tokens"] or 0 for call in calls))


def timed_figures(folder: Path) -> list[Figure]:
    """Return how the cascade's time compares, as timed runs in `folder` measured it; if any did."""
    path = folder / TIMED_FILE
    if not path.exists():
        return []
    seconds: dict[str, dict[str, float]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        seconds.setdefault(line["strategy"], {})[line["id"]] = line["seconds"]
    mai = seconds.pop("mai", {})
    return [
        Figure(
            f"time of mai over {name}",
            ratio([mai[one] for one in own], list(own.values())),
            "times",
            None,
            0.6 if name in ("large_reason", "full_transfer") else None,
        )
        for name, own in seconds.items()
        if set(own) <= set(mai)
    ]


def markdown(measured: Measured, figures: Sequence[Figure]) -> str:
    """Return the tables of `demo/README.md`: figures and aims, strategies, kinds of questions."""
    rows = [
        (
            figure.name,
            _shown(figure.estimate, figure.unit),
            _interval(figure.estimate),
            figure.aim,
            {True: "yes", False: "**no**", None: ""}[figure.met],
        )
        for figure in figures
    ]
    strategies = [
        (name, _shown(found, "%"), _interval(found), f"{tokens.value:.1f}")
        for name, found, tokens in measured.accuracies()
    ]
    kinds = [
        (kind, *(f"{own[name]:.1f}" for name in _COMPARED))
        for kind, own in measured.by_kind().items()
    ]
    return "\n".join(
        [
            *_table(("figure", "measured", "95% interval", "aim", "met"), rows),
            "",
            *_table(("strategy", "right", "95% interval", "output tokens"), strategies),
            "",
            *_table(("kind", *_COMPARED), kinds),
            "",
        ]
    )


def _where(values: Sequence[_Value], chosen: Sequence[bool]) -> list[_Value]:
    return [value for value, take in zip(values, chosen, strict=True) if take]


def _share(
    name: str, hits: Sequence[bool], least: float | None = None, most: float | None = None
) -> Figure:
    return Figure(name, _scaled(proportion(hits)), "%", least, most)


def _scaled(found: Estimate) -> Estimate:
    value, low, high = (
        None if one is None else 100 * one for one in (found.value, found.low, found.high)
    )
    return replace(found, value=value, low=low, high=high)


def _shown(found: Estimate, unit: str) -> str:
    if found.value is None:
        return "none"
    if unit == "times":
        return f"{found.value:.2f} times"
    return f"{found.value:.1f} {unit}" + (f" of {found.questions}" if unit == "%" else "")


def _interval(found: Estimate) -> str:
    return "" if found.low is None else f"{found.low:.2f} to {found.high:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m langgraph_mai.demo.evaluation")
    parser.add_argument("--pair", default="demo", help="a pair's name or file")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=REPORT_SEED)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    options = parser.parse_args()
    benchmark = load_shapes(options.count, options.out, options.seed)
    pair = load_pair(options.pair)
    found = evaluate(benchmark, pair, STRATEGIES, options.out, concurrency=64)
    measured = Measured(benchmark, found.results)
    figures = [*measured.figures(), *timed_figures(options.out)]
    table = markdown(measured, figures)
    write_whole(options.out / "figures.md", table)
    write_whole(
        options.out / "figures.json", json.dumps([asdict(one) for one in figures], indent=1)
    )
    print(table)  # noqa: T201


if __name__ == "__main__":
    main()
