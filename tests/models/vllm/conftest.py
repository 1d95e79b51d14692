"""The demo pair in vLLM engines of the test process, started once."""

import os
from importlib.util import find_spec

import pytest

# Settings that suit models this small on two CPU cores; vLLM reads them when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

NEED_VLLM = ["test_chat_vllm.py", "test_engine_processes.py", "test_engine_speculation.py"]
collect_ignore = [] if find_spec("vllm") else NEED_VLLM


@pytest.fixture(scope="session")
def vllm_pair():
    """The pair `demo-vllm`, ready to answer."""
    from langgraph_mai import load_pair

    pair = load_pair("demo-vllm")
    pair.small.load()
    pair.large.load()
    yield pair
    pair.large.unload()
    pair.small.unload()
