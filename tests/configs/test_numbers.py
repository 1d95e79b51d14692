"""What is no number in settings, though Python counts with it."""

import pytest
from pydantic import ValidationError

from langgraph_mai import SparseTransfer


@pytest.mark.parametrize("name", ["layer", "share", "query"])
@pytest.mark.parametrize("value", [True, False])
def test_true_and_false_are_no_numbers_of_sparse_transfer(name, value):
    with pytest.raises(ValidationError) as refused:
        SparseTransfer(**{name: value})
    (problem,) = refused.value.errors()
    assert problem["msg"] == "Value error, must be a number, not true or false"
