"""What the tests of benchmarks share."""

import public_files as files
import pytest

from langgraph_mai.benchmarks.datasets import load_benchmark


@pytest.fixture
def load(tmp_path):
    """A benchmark from rows, as `load_benchmark` reads them from a file."""

    def loaded(name, rows, **options):
        path = files.write_parquet(tmp_path / f"{name}.parquet", rows)
        return load_benchmark(name, data=path, folder=tmp_path / "out", **options)

    return loaded
