"""What the tests of graphs share."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver


@pytest.fixture(params=["memory", "sqlite"])
def checkpointer(request, tmp_path):
    """Keeps threads in memory, or in a file."""
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            yield saver
