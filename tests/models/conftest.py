"""What the tests of chat models share."""

import asyncio

import pytest


@pytest.fixture(params=["invoke", "ainvoke", "stream", "astream"])
def whole(request):
    """A model's message, or the sum of its chunks, in each of LangChain's four ways."""

    async def read(model, given, settings):
        return [chunk async for chunk in model.astream(given, **settings)]

    def go(model, given="Is it red?", **settings):
        if request.param == "invoke":
            return model.invoke(given, **settings)
        if request.param == "ainvoke":
            return asyncio.run(model.ainvoke(given, **settings))
        if request.param == "stream":
            chunks = list(model.stream(given, **settings))
        else:
            chunks = asyncio.run(read(model, given, settings))
        return sum(chunks[1:], chunks[0])

    return go


@pytest.fixture
def ask(whole):
    """The text of a model's answer, in each of the four ways."""
    return lambda *args, **settings: whole(*args, **settings).text


FAMILIES = ["qwen3-vl", "internvl", "internvl-qwen2"]


@pytest.fixture(scope="session")
def deep_checkpoints(tmp_path_factory):
    """Folders of tiny random checkpoints of four layers, with an output layer of their own."""
    from checkpoints import save_internvl, save_qwen3_vl
    from transformers import Qwen2Config

    folder = tmp_path_factory.mktemp("deep")
    sizes = {"num_hidden_layers": 4, "tie_word_embeddings": False, "context": 16_384}
    return {
        "qwen3-vl": save_qwen3_vl(folder / "qwen3-vl", **sizes),
        "internvl": save_internvl(folder / "internvl", **sizes),
        "internvl-qwen2": save_internvl(folder / "qwen2", text_config=Qwen2Config, **sizes),
    }


@pytest.fixture(scope="session", params=FAMILIES)
def deep_checkpoint(request, deep_checkpoints):
    """Folder of a checkpoint of four layers; the test runs once for each family."""
    return deep_checkpoints[request.param]
