"""Table 12's form for the demo pair: a table, figures, and `decoding.json`, which keeps them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..records.json_files import write_json
from ..records.record import Record
from .errors import ProfilingInputError
from .tables import Table

Strategy = Literal["large_reason", "speculative", "mai"]

METHODS: Mapping[Strategy, str] = {
    "large_reason": "large R",
    "speculative": "speculative, large R with small as draft",
    "mai": "MAI",
}
"""The strategies, and how the table names them."""

_FILE = "decoding.json"


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer, one question at a time.

    Attributes:
        strategy: Its name.
        questions: How many.
        seconds: For all of them.
        accuracy: Share answered right.
        accept_rate: Share of the draft's tokens that are in the outputs, if there is a draft.
        equal: Questions whose output is that of the large model's plain greedy decoding, where
            it should be.
    """

    strategy: Strategy
    questions: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    accuracy: Annotated[float, Field(ge=0, le=1)]
    accept_rate: Annotated[float | None, Field(ge=0, le=1)] = None
    equal: Annotated[int | None, Field(ge=0)] = None


def decoding_table(methods: Sequence[Method]) -> Table:
    """The methods in the form of Table 12."""
    header = ["method", "backend", "batch", "accept rate", "total (s)", "s a question", "speedup"]
    header += ["accuracy", "equal to plain greedy"]
    rows = [
        [
            METHODS[method.strategy],
            "transformers",
            "1",
            "" if method.accept_rate is None else f"{method.accept_rate:.1%}",
            f"{method.seconds:.2f}",
            f"{method.seconds / method.questions:.3f}",
            f"{methods[0].seconds / method.seconds:.2f}",
            f"{method.accuracy:.1%}",
            "" if method.equal is None else f"{method.equal} of {method.questions}",
        ]
        for method in methods
    ]
    return Table("decoding", "Decoding, the demo pair (Table 12)", header, rows)


def decoding_records(methods: Sequence[Method]) -> list[Record]:
    """The methods as flat figures."""
    found: list[Record] = []
    for method in methods:
        for name, value, unit in (
            ("total", method.seconds, "s"),
            ("accuracy", method.accuracy, "share"),
            ("accept_rate", method.accept_rate, "share"),
            ("equal_to_plain", method.equal, "questions"),
        ):
            if value is not None:
                figure = f"decoding.{method.strategy}.{name}"
                found.append(Record(figure, round(value, 4), unit, questions=method.questions))
    return found


def write_decoding(methods: Sequence[Method], folder: Path) -> None:
    """Write `decoding.json`.

    Raises:
        ConfigError: It cannot be written.
    """
    write_json(folder / _FILE, [asdict(method) for method in methods])


def read_decoding(folder: Path) -> list[Method]:
    """The methods of a folder's `decoding.json`, none if it is missing.

    Raises:
        ProfilingInputError: It is none that `write_decoding` wrote.
    """
    path = folder / _FILE
    try:
        return TypeAdapter(list[Method]).validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as error:
        raise ProfilingInputError(
            f"{str(path)!r} holds no results of --decoding and is left as it is; move it away, or "
            "name another folder."
        ) from error
