"""What goes wrong with the data of a benchmark, said in one sentence."""


class DataError(ValueError):
    """Data that cannot be used; the message says where the fault is and what to do."""
