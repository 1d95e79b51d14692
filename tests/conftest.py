"""What the tests of all rooms share: no network, a cache folder of their own, checkpoints."""

import asyncio
import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

# Read when huggingface_hub is imported: an unknown model name fails at once, without the network.
os.environ["HF_HUB_OFFLINE"] = "1"

# How long an example takes depends on what else the machine does.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture(scope="session")
def _session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache_folder(_session_cache, monkeypatch):
    """Stored pictures go to a folder of the test session."""
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(_session_cache))


@pytest.fixture(scope="session")
def qwen_checkpoint(tmp_path_factory) -> Path:
    """Folder of a tiny random Qwen3-VL checkpoint."""
    from checkpoints import save_qwen3_vl

    return save_qwen3_vl(tmp_path_factory.mktemp("qwen3-vl"))


@pytest.fixture(scope="session")
def internvl_checkpoint(tmp_path_factory) -> Path:
    """Folder of a tiny random InternVL checkpoint with Qwen3 text."""
    from checkpoints import save_internvl

    return save_internvl(tmp_path_factory.mktemp("internvl"))


@pytest.fixture(scope="session", params=["qwen3-vl", "internvl"])
def checkpoint(request) -> Path:
    """Folder of a tiny random checkpoint; the test runs once for each family."""
    name = "qwen_checkpoint" if request.param == "qwen3-vl" else "internvl_checkpoint"
    return request.getfixturevalue(name)


@pytest.fixture(scope="session")
def demo_weights() -> Path:
    """Folder with the demo pair's checkpoints, `small` and `large`."""
    import langgraph_mai.demo

    return Path(langgraph_mai.demo.__file__).parent / "weights"


@pytest.fixture(scope="session")
def demo_mai():
    """The cascade of the demo pair."""
    from langgraph_mai import create_mai, load_pair

    pair = load_pair()
    return create_mai(pair.small, pair.large, prompts=pair.prompts)


@pytest.fixture(scope="session")
def vllm_pair():
    """The pair `demo-vllm` in engines of the test process, ready to answer."""
    from langgraph_mai import load_pair

    pair = load_pair("demo-vllm")
    pair.small.load()
    pair.large.load()
    yield pair
    pair.large.unload()
    pair.small.unload()


@pytest.fixture(scope="session")
def served_demo(tmp_path_factory):
    """The pair `demo-vllm` on the servers of one `mai serve`."""
    from processes import ServedDemo

    served = ServedDemo(tmp_path_factory.mktemp("served"))
    yield served
    served.end()


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    """Runs a graph to its end, in this thread or in an event loop."""

    def go(graph, given, *args, **options):
        if request.param == "invoke":
            return graph.invoke(given, *args, **options)
        return asyncio.run(graph.ainvoke(given, *args, **options))

    return go


@pytest.fixture
def local_download(monkeypatch):
    """LangChain's suites get a picture that is made here instead of one from the network."""
    import httpx
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (400, 300), "red").save(stream, "PNG")
    local = SimpleNamespace(content=stream.getvalue())
    monkeypatch.setattr(httpx, "get", lambda url, **options: local)


@pytest.fixture
def server():
    """A server of the test's own with an OpenAI-compatible API, which serves the model "m"."""
    from chat_servers import ChatServerProcess

    process = ChatServerProcess()
    yield process
    process.stop()
