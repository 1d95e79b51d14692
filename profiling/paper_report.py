"""The paper's Tables 11 and 12 beside their predictions, as tables and as figures for programs."""

from ..records.record import Record
from .paper_comparison import Compared, compare_with_paper, contradictions
from .paper_decoding import ComparedMethod, compare_decoding_with_paper
from .tables import Table


def paper_tables() -> list[Table]:
    """Tables 11 and 12."""
    header = ["benchmark", "full transfer (s)", "published (s)", "off"]
    header += ["MAI (s)", "MAI published (s)", "MAI off", "speedup", "speedup published"]
    header += ["speedup off", "R disputed / mean", "R all / mean", "MAI (s), R as of all"]
    header += ["speedup, overlapped"]
    decoding = ["method", "total (s)", "published (s)", "off", "speedup", "speedup published"]
    decoding += ["speedup off"]
    return [
        Table(
            "table11",
            "Table 11 from Tables 3, 4, 5 and 10",
            header,
            [_compared(row) for row in compare_with_paper()],
        ),
        Table(
            "table12",
            "Table 12 (one by one) from Tables 3, 4, 5 and its accept rate",
            decoding,
            [_method(method) for method in compare_decoding_with_paper()],
        ),
    ]


def paper_records() -> list[Record]:
    """The same as flat figures, and the figures of the paper that contradict each other."""
    found: list[Record] = []
    for row in compare_with_paper():
        for key, value, unit in (
            ("full_transfer.predicted", row.full_transfer, "s"),
            ("full_transfer.published", row.paper_full_transfer, "s"),
            ("mai.predicted", row.mai, "s"),
            ("mai.published", row.paper_mai, "s"),
            ("speedup.predicted", row.speedup, "ratio"),
            ("speedup.published", row.paper_speedup, "ratio"),
            ("speedup.overlapped", row.overlapped_speedup, "ratio"),
            ("reasoning_ratio.disputed", row.implied_ratio, "ratio"),
            ("reasoning_ratio.all", row.implied_full_ratio, "ratio"),
            ("mai.at_ratio_of_all", row.mai_at_ratio, "s"),
        ):
            found.append(Record(f"table11.{row.benchmark}.{key}", round(value, 4), unit))
    for method in compare_decoding_with_paper():
        for key, value, unit in (
            ("total.predicted", method.seconds, "s"),
            ("total.published", method.paper_seconds, "s"),
            ("speedup.predicted", method.speedup, "ratio"),
            ("speedup.published", method.paper_speedup, "ratio"),
        ):
            found.append(Record(f"table12.{method.strategy}.{key}", round(value, 4), unit))
    found += [
        Record(f"contradiction.{index}", line, "text")
        for index, line in enumerate(contradictions())
    ]
    return found


def _compared(row: Compared) -> list[str]:
    return [
        row.benchmark,
        *_against(row.full_transfer, row.paper_full_transfer),
        *_against(row.mai, row.paper_mai),
        *_against(row.speedup, row.paper_speedup, places=2),
        f"{row.implied_ratio:.2f}",
        f"{row.implied_full_ratio:.2f}",
        f"{row.mai_at_ratio:.0f}",
        f"{row.overlapped_speedup:.1f}",
    ]


def _method(method: ComparedMethod) -> list[str]:
    return [
        method.strategy,
        *_against(method.seconds, method.paper_seconds),
        *_against(method.speedup, method.paper_speedup, places=2),
    ]


def _against(value: float, published: float, places: int = 0) -> list[str]:
    """A prediction, what was published, and how far the first is off."""
    return [f"{value:.{places}f}", f"{published:.{places}f}", f"{value / published - 1:+.1%}"]
