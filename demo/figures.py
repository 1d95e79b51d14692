"""What a pair's recorded calls say about it: accuracies, the cascade, and the pair's targets."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ..answers import agree, parse
from ..nodes.state import ModelCall
from .held_out import HeldOut

CALLS = (
    "small_direct",
    "small_explain",
    "small_reason",
    "large_direct",
    "large_explain",
    "large_reason",
    "small_transfer",
    "large_two_stage",
    "large_transfer",
)
"""`small_transfer` is the small model's two-stage; `large_transfer` reads the small's reasoning."""

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number with its 95% interval.

    Attributes:
        name: What was measured.
        value: In the unit of `unit`.
        low: Lower end of the interval.
        high: Upper end.
        unit: "%", "points" or "times".
        questions: Number of questions it was measured on.
        target: What it should be, in words; empty if there is no target.
        met: Whether `value` meets the target.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    questions: int
    target: str = ""
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A held-out question with every call made on it, by the names in CALLS."""

    item: HeldOut
    calls: dict[str, ModelCall]

    def right(self, call: str) -> bool:
        """Whether a call's answer is the right one, read and compared as the graph does."""
        return self._agrees(self._read(call), self.item.answer)

    def route(self) -> str:
        """How far the cascade goes."""
        large = self._read("large_direct")
        if self._agrees(self._read("small_direct"), large):
            return "direct"
        return "reasoned" if self._agrees(self._read("small_reason"), large) else "transferred"

    def cascade(self) -> str:
        """The call whose answer the cascade returns."""
        if self.route() != "transferred":
            return "large_direct"
        # A transfer without an answer falls back as the graph does.
        for call in ("large_transfer", "large_direct", "small_reason"):
            if self.calls[call]["answer"] is not None:
                return call
        return "large_transfer"

    def _read(self, call: str) -> str:
        return self.calls[call]["answer"] or ""

    def _agrees(self, first: str, second: str) -> bool:
        question = self.item.question
        kind = self.calls["large_direct"]["kind"]
        read = [parse(text, kind, question.choices, question.text) for text in (first, second)]
        return agree(read[0], read[1]) == "agree"


def share(name: str, hits: Sequence[bool], target: str = "", met: bool | None = None) -> Figure:
    """A share in percent with Wilson's interval."""
    count = len(hits)
    if not count:
        return Figure(name, math.nan, math.nan, math.nan, "%", 0, target, None)
    value = sum(hits) / count
    middle = (value + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count)
    half *= math.sqrt(value * (1 - value) / count + _Z**2 / (4 * count**2))
    return Figure(
        name, 100 * value, 100 * (middle - half), 100 * (middle + half), "%", count, target, met
    )


def difference(
    name: str, first: Sequence[bool], second: Sequence[bool], at_least: float | None = None
) -> Figure:
    """A paired difference of two shares in points, with a normal interval over the questions."""
    gaps = [100 * (int(a) - int(b)) for a, b in zip(first, second, strict=True)]
    if not gaps:
        return Figure(name, math.nan, math.nan, math.nan, "points", 0)
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / max(1, len(gaps) - 1))
    half = _Z * spread / math.sqrt(len(gaps))
    target = "" if at_least is None else f"at least {at_least:g}"
    met = None if at_least is None else mean >= at_least
    return Figure(name, mean, mean - half, mean + half, "points", len(gaps), target, met)


def accuracies(answered: Sequence[Answered]) -> list[Figure]:
    """Accuracy of every call and of the cascade."""
    figures = [share(name, [a.right(name) for a in answered]) for name in CALLS]
    return [*figures, share("mai", _cascade_right(answered))]


def by_kind(answered: Sequence[Answered]) -> dict[str, list[Figure]]:
    """The accuracies, a kind of question at a time."""
    kinds = dict.fromkeys(a.item.question.kind for a in answered)
    return {
        kind: accuracies([a for a in answered if a.item.question.kind == kind]) for kind in kinds
    }


def targets(answered: Sequence[Answered]) -> list[Figure]:
    """Everything the pair must show."""
    right = {name: [a.right(name) for a in answered] for name in CALLS}
    mai = _cascade_right(answered)
    routes = [a.route() for a in answered]
    disputed = [route != "direct" for route in routes]
    wrong = [not r for r in right["small_reason"]]
    both_wrong = [w and not d for w, d in zip(wrong, right["large_direct"], strict=True)]

    def where(hits: Sequence[bool], chosen: Sequence[bool]) -> list[bool]:
        return [hit for hit, take in zip(hits, chosen, strict=True) if take]

    past = share("past direct verification", disputed)
    agreed = share("right where the direct answers agree", where(mai, [not d for d in disputed]))
    repaired = share("wrong reasonings repaired by transfer", where(right["large_transfer"], wrong))
    deep = share(
        "repaired where large direct was wrong too", where(right["large_transfer"], both_wrong)
    )
    spoiled = share(
        "right reasonings spoiled by transfer",
        [not hit for hit in where(right["large_transfer"], [not w for w in wrong])],
    )
    best = max(("small_reason", "large_direct"), key=lambda name: sum(right[name]))
    top = max(CALLS[:5], key=lambda name: sum(right[name]))
    return [
        difference("large direct - small direct", right["large_direct"], right["small_direct"], 10),
        difference("small reason - small direct", right["small_reason"], right["small_direct"], 5),
        difference(f"large reason - {top} (best other)", right["large_reason"], right[top], 0),
        difference(
            "transfer - large direct, where they differ",
            where(right["large_transfer"], disputed),
            where(right["large_direct"], disputed),
            5,
        ),
        difference("mai - large reason", mai, right["large_reason"], -1),
        difference(f"mai - {best} (the better part)", mai, right[best], 0),
        _aim(past, "at most 35", lambda value: value <= 35),
        _aim(agreed, "at least 95", lambda value: value >= 95),
        _aim(repaired, "at least 50", lambda value: value >= 50),
        _aim(deep, "some", lambda value: value > 0),
        _aim(spoiled, "at most 3", lambda value: value <= 3),
        _lengths(answered),
        *(share(f"route {name}", [r == name for r in routes]) for name in dict.fromkeys(routes)),
    ]


def _cascade_right(answered: Sequence[Answered]) -> list[bool]:
    return [a.right(a.cascade()) for a in answered]


def _aim(figure: Figure, target: str, reached: Callable[[float], bool]) -> Figure:
    return Figure(
        figure.name,
        figure.value,
        figure.low,
        figure.high,
        figure.unit,
        figure.questions,
        target,
        reached(figure.value),
    )


def _lengths(answered: Sequence[Answered]) -> Figure:
    """Mean length of a reasoning over that of a direct answer, both models, in tokens."""

    def mean(style: str) -> float:
        lengths = [a.calls[f"{r}_{style}"]["output_tokens"] or 0 for a in answered for r in _ROLES]
        return sum(lengths) / len(lengths)

    ratio = mean("reason") / mean("direct")
    return Figure(
        "tokens of a reasoning over a direct answer",
        ratio,
        ratio,
        ratio,
        "times",
        len(answered),
        "at least 15",
        ratio >= 15,
    )


_ROLES = ("small", "large")
