"""What goes wrong with the data of a benchmark, said in one sentence, or in a line a fault."""

from collections.abc import Sequence

_SHOWN = 10


class DataError(ValueError):
    """Data that cannot be used; the message says where the fault is and what to do."""


class DataFaultsError(DataError):
    """Several faults; the message has a line for each."""


def fault_list(what: str, faults: Sequence[str]) -> DataError:
    """The error about faults that were found together.

    Args:
        what: What they are about; it begins the message.
        faults: Each in one sentence, at least one; ten are shown.
    """
    if len(faults) == 1:
        return DataError(f"{what}, {faults[0]}")
    lines = [f"{what}:", *faults[:_SHOWN]]
    if len(faults) > _SHOWN:
        lines.append(f"and {len(faults) - _SHOWN} more.")
    return DataFaultsError("\n".join(lines))
