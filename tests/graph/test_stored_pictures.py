"""What of a message goes to the cache folder, under which name, and that it comes back."""

import base64
import contextlib

import pytest
from fakes import PROMPTS, models
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import MAIInputError, create_mai

THREAD = {"configurable": {"thread_id": "1"}}
TEXT = {"type": "text", "text": "Is it red?"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b" / "cache"
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(folder))
    return folder


def cascade(checkpointer=None):
    return create_mai(*models("direct"), prompts=PROMPTS, checkpointer=checkpointer)


def hostile(target):
    """Blocks whose type names a file outside the cache folder."""
    data = base64.b64encode(b"#!/bin/sh\necho yes\n" * 400).decode()
    for way in (f"x/../../../../../../../../../../../..{target}", str(target)):
        for kind in (f"image/{way}", way, f"image/png+{way}"):
            uri = f"data:{kind};base64,{data}"
            yield {"type": "text", "text": uri}
            yield {"type": "image_url", "image_url": {"url": uri}}
            yield {"type": "image_url", "image_url": uri}
            yield {"type": "image", "base64": data, "mime_type": kind}
            yield {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
            yield {"type": "file", "file": {"file_data": uri}}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("form", ["message", "dict"])
def test_no_message_writes_outside_the_cache_folder(keep, form, tmp_path, cache):
    precious = tmp_path / "precious.sh"
    precious.write_text("precious")
    for target in (precious, tmp_path / "new" / "evil.sh"):
        for block in hostile(target):
            content = [block, TEXT]
            message = HumanMessage(content) if form == "message" else {"role": "user"}
            if form == "dict":
                message["content"] = content
            with contextlib.suppress(MAIInputError):  # It is no picture.
                cascade(InMemorySaver() if keep else None).invoke({"messages": [message]}, THREAD)
    assert precious.read_text() == "precious"
    outside = {path for path in tmp_path.rglob("*") if path.is_file() and cache not in path.parents}
    assert outside == {precious}
    assert not [path for path in (cache / "images").glob("*") if path.is_dir()]
    assert not list(cache.rglob("*.sh"))
