"""A picture is decoded once a run, and prepared once for models that want it the same way."""

import threading
import time

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import create_mai, load_pair
from langgraph_mai.models import ChatTransformers, ImageError, image_block, load_image
from langgraph_mai.models.images import decoding
from langgraph_mai.models.shared_cache import SharedCache


@pytest.fixture
def picture(tmp_path):
    """A picture that no other test has shown; its first pixel is of this moment."""
    image = Image.new("RGB", (160, 160), "white")
    now = time.time_ns()
    for at in range(8):
        image.putpixel((at, 0), ((now >> 8 * at) & 255, 0, 0))
    path = tmp_path / "picture.png"
    image.save(path)
    return str(path)


@pytest.fixture
def decoded(monkeypatch):
    opened = []
    original = decoding.Image.open

    def counting(*args, **kwargs):
        opened.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(decoding.Image, "open", counting)
    return opened


@pytest.fixture
def prepared(monkeypatch):
    from transformers import GotOcr2ImageProcessor, Qwen2VLImageProcessor

    seen = []
    for kind in (Qwen2VLImageProcessor, GotOcr2ImageProcessor):

        def counting(self, images, *args, original=kind.__call__, **kwargs):
            seen.append(len(images))
            return original(self, images, *args, **kwargs)

        monkeypatch.setattr(kind, "__call__", counting)
    return seen


def test_a_run_decodes_and_prepares_its_picture_once(picture, decoded, prepared):
    pair = load_pair("demo")
    mai = create_mai(
        pair.small, pair.large, prompts=pair.prompts, verifier=lambda one, other: "disagree"
    )
    result = mai.invoke({"question": "How many red circles are there?", "images": [picture]})
    assert result["route"] == "transferred"
    assert len(result["calls"]) == 4
    assert decoded == [1]
    assert prepared == [1]


def test_models_with_other_settings_prepare_for_themselves(
    picture, prepared, qwen_checkpoint, internvl_checkpoint
):
    block = image_block(picture)
    for path in (qwen_checkpoint, internvl_checkpoint, qwen_checkpoint):
        model = ChatTransformers(model=str(path), dtype="float32", max_tokens=1)
        model.invoke([HumanMessage([block, "What?"])])
    assert prepared == [1, 1]


def test_a_changed_file_is_another_picture(picture):
    before = load_image(picture).getpixel((5, 5))
    Image.new("RGB", (160, 160), "blue").save(picture)
    assert before == (255, 255, 255)
    assert load_image(picture).getpixel((5, 5)) == (0, 0, 255)


def test_what_a_caller_does_to_a_picture_stays_with_it(picture):
    load_image(picture).paste("red", (0, 0, 160, 160))
    assert load_image(picture).getpixel((80, 80)) == (255, 255, 255)


def test_the_error_names_the_picture_that_is_asked_for(tmp_path):
    for name in ("one.png", "two.png"):
        (tmp_path / name).write_bytes(b"no picture at all")
        with pytest.raises(ImageError, match=name):
            load_image(str(tmp_path / name))


def test_a_picture_to_be_encoded_anew_is_encoded_once(tmp_path, monkeypatch):
    from langgraph_mai.models import images

    path = tmp_path / "grey.png"
    Image.new("L", (50, 50), time.time_ns() % 256).save(path)
    encode, encoded = images.encode_image, []
    monkeypatch.setattr(images, "encode_image", lambda one: encoded.append(1) or encode(one))
    assert image_block(str(path)) == image_block(str(path))
    assert len(encoded) <= 1


def test_threads_that_ask_at_once_make_it_once():
    cache = SharedCache(100, len)
    made, got = [], []

    def make():
        made.append(1)
        time.sleep(0.05)
        return "result"

    threads = [
        threading.Thread(target=lambda: got.append(cache.get("key", make))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made, got) == ([1], ["result"] * 8)


def test_failures_reach_everyone_and_are_not_kept():
    cache = SharedCache(100, len)
    inside = threading.Event()
    errors = []

    def fail():
        inside.set()
        time.sleep(0.05)
        raise ValueError("broken")

    def ask():
        try:
            cache.get("key", fail)
        except ValueError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == ["broken"] * 2
    assert cache.get("key", lambda: "fine") == "fine"


def test_the_bound_of_a_shared_cache():
    cache = SharedCache(10, len)
    cache.get("a", lambda: "1234")
    cache.get("b", lambda: "5678")
    cache.get("a", lambda: "never made")
    cache.get("c", lambda: "9012")  # "b" was not used for the longest time
    assert cache.get("a", lambda: "again") == "1234"
    assert cache.get("b", lambda: "anew") == "anew"
    assert cache.get("large", lambda: "x" * 11) == "x" * 11
    assert cache.get("b", lambda: "still there?") == "anew"
    cache.clear()
    assert cache.get("b", lambda: "gone") == "gone"
