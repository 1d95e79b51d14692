"""An image is decoded once in a process, and preprocessed once for models that want it alike."""

import base64
import io
import threading
import time

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import ChatTransformers, create_mai, load_pair
from langgraph_mai.models.images import (
    ImageError,
    block_image,
    cached_image,
    clear_image_cache,
    load_image,
)
from langgraph_mai.models.pairs import clear_caches


@pytest.fixture
def picture(tmp_path):
    """An image that no other test has shown; its first pixels are of this moment."""
    image = Image.new("RGB", (160, 160), "white")
    now = time.time_ns()
    for at in range(8):
        image.putpixel((at, 0), ((now >> 8 * at) & 255, 0, 0))
    path = tmp_path / "picture.png"
    image.save(path)
    return str(path)


@pytest.fixture
def opened(monkeypatch):
    """What Pillow opened."""
    seen = []
    original = Image.open
    monkeypatch.setattr(Image, "open", lambda *a, **k: seen.append(1) or original(*a, **k))
    return seen


@pytest.fixture
def preprocessed(monkeypatch):
    from transformers import GotOcr2ImageProcessor, Qwen2VLImageProcessor

    seen = []
    for kind in (Qwen2VLImageProcessor, GotOcr2ImageProcessor):

        def counting(self, images, *args, original=kind.__call__, **kwargs):
            seen.append(len(images))
            return original(self, images, *args, **kwargs)

        monkeypatch.setattr(kind, "__call__", counting)
    return seen


def test_a_run_decodes_and_preprocesses_its_image_once(picture, opened, preprocessed):
    pair = load_pair("demo")
    mai = create_mai(
        pair.small, pair.large, prompts=pair.prompts, verifier=lambda one, other: "disagree"
    )
    result = mai.invoke({"question": "How many red circles are there?", "images": [picture]})
    assert result["route"] == "transferred"
    assert len(result["calls"]) == 4
    assert opened == [1]
    assert preprocessed == [1]


def test_models_with_other_settings_preprocess_for_themselves(
    picture, preprocessed, qwen_checkpoint, internvl_checkpoint
):
    block = load_image(picture).block
    for path in (qwen_checkpoint, internvl_checkpoint, qwen_checkpoint):
        model = ChatTransformers(model=str(path), dtype="float32", max_tokens=1)
        model.invoke([HumanMessage([block, "What?"])])
    assert preprocessed == [1, 1]


def test_equal_bytes_are_one_image_in_every_form(picture, opened, tmp_path):
    image = load_image(picture)
    (tmp_path / "copy.jpg").write_bytes(image.data)
    text = "".join(image.base64)  # an equal text, not the same object
    forms = [
        load_image(picture),
        load_image(str(tmp_path / "copy.jpg")),
        block_image(image.block),
        block_image({"type": "image", "base64": text}),
        load_image(f"data:image/png;base64,{text}"),
        block_image({"image": image.data}),
        cached_image(image.digest),
    ]
    assert all(form is image for form in forms)
    assert opened == [1]
    clear_image_cache()
    assert cached_image(image.digest) is None
    assert block_image(image.block).digest == image.digest


def test_an_image_encoded_again_is_known_by_its_block(opened):
    image = block_image({"image": Image.new("L", (50, 50), time.time_ns() % 256)})
    assert block_image(image.block) is image
    stream = io.BytesIO()
    Image.effect_noise((50, 50), 80).save(stream, "WEBP")
    text = base64.b64encode(stream.getvalue()).decode()
    image = block_image({"type": "image", "base64": text})
    assert block_image(image.block) is block_image({"type": "image", "base64": text}) is image
    assert opened == [1]


def test_a_changed_file_is_another_image(picture):
    before = load_image(picture)
    Image.new("RGB", (160, 160), "blue").save(picture)
    assert before.image.getpixel((5, 5)) == (255, 255, 255)
    assert load_image(picture).image.getpixel((5, 5)) == (0, 0, 255)
    assert load_image(picture).digest != before.digest


def test_threads_share_one_decoding(picture, opened):
    found = []
    threads = [threading.Thread(target=lambda: found.append(load_image(picture))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert opened == [1]


def test_failures_are_not_cached(tmp_path, picture):
    path = tmp_path / "late.png"
    for _ in range(2):
        path.write_bytes(b"no image yet")
        with pytest.raises(ImageError):
            load_image(str(path))
    path.write_bytes(load_image(picture).data)
    assert load_image(str(path)) is load_image(picture)


def test_memory_of_decoded_images_is_bounded():
    clear_image_cache()
    images = []
    for number in range(4):  # 74 MB each
        image = block_image({"image": Image.new("RGB", (4300, 4300), (number, 9, 9))})
        images.append(image.digest)
    cached_image(images[1])  # used last but one
    block_image({"image": Image.new("RGB", (4300, 4300), "red")})
    assert [cached_image(digest) is not None for digest in images] == [False, True, False, True]
    clear_image_cache()


def test_caches_are_cleared_for_a_cold_start(checkpoint, picture, opened):
    model = ChatTransformers(model=str(checkpoint), device="cpu", max_tokens=4)

    def cached_tokens():
        block = load_image(picture).block
        reply = model.invoke([HumanMessage([block, {"type": "text", "text": "Is it red?"}])])
        return reply.usage_metadata["input_token_details"]["cache_read"]

    clear_caches([model])
    assert cached_tokens() == 0
    assert cached_tokens() > 0
    clear_caches([model, object()])  # what has no such cache is left alone
    assert cached_tokens() == 0
    assert opened == [1, 1]
