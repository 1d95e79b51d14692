"""Images in every form: references and content blocks, decoded once, kept within bounds."""

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
    is_image_block,
    load_image,
)
from langgraph_mai.models.pairs import clear_caches


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


RED = encoded(Image.new("RGB", (40, 40), "red"))
TEXT = base64.b64encode(RED).decode()
URI = f"data:image/png;base64,{TEXT}"


def test_every_form_is_read(tmp_path):
    path = tmp_path / "a b.png"
    path.write_bytes(RED)
    blocks = [
        {"type": "image", "base64": TEXT, "mime_type": "image/png"},
        {"type": "image", "base64": TEXT, "mime_type": "image/jpeg"},
        {"type": "image", "base64": TEXT},
        {"type": "image", "base64": URI},
        {"type": "image", "url": URI},
        {"type": "image", "url": path.as_uri()},
        {"type": "image", "url": str(path)},
        {"type": "image", "source_type": "base64", "data": TEXT, "mime_type": "image/png"},
        {"type": "image", "source_type": "url", "url": URI},
        {"type": "image_url", "image_url": {"url": URI, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": str(path)}},
        {"type": "image_url", "image_url": URI},
        {"type": "input_image", "image_url": URI},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
        {"type": "image", "source": {"type": "url", "url": URI}},
        {"type": "image", "image": Image.open(io.BytesIO(RED))},
        {"type": "image", "image": str(path)},
        {"type": "image", "path": path},
        {"type": "image", "image": RED},
        {"image": str(path)},
        {"type": "media", "mime_type": "image/png", "data": TEXT},
        {"type": "file", "mime_type": "image/png", "base64": TEXT},
        {"type": "non_standard", "value": {"type": "image", "source": {"data": TEXT}}},
    ]
    for block in blocks:
        assert is_image_block(block), block
        image = block_image(block)
        assert image.image.getpixel((5, 5)) == (255, 0, 0), block
        assert base64.b64decode(image.block["base64"])[:4] == b"\x89PNG"


def test_blocks_without_a_usable_image():
    blocks = [
        {"type": "image"},
        {"type": "image", "base64": ""},
        {"type": "image", "base64": "no base64!"},
        {"type": "image", "file_id": "file-1"},
        {"type": "image_url", "image_url": {}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "x"}},
        {"type": "image", "base64": 5},
        {"type": "image", "base64": {"url": []}},
        {"type": "image_url", "image_url": [1]},
        {"type": {}},
        {"type": ["image"], "image": RED},
        {"type": "text", "text": "x"},
        {"type": "audio", "base64": TEXT},
        {"type": "file", "mime_type": "application/pdf", "base64": TEXT},
    ]
    for block in blocks:
        with pytest.raises(ImageError) as raised:
            block_image(block)
        assert "\n" not in str(raised.value)
    assert not any(is_image_block(block) for block in [*blocks[-3:], "text", None])


def test_files_are_sent_so_that_every_reader_sees_the_same(tmp_path):
    path = tmp_path / "lying.gif"
    red, black, turned = Image.new("RGB", (60, 40), "red"), Image.new("RGB", (60, 40)), Image.Exif()
    for kind, mime in (("PNG", "image/png"), ("JPEG", "image/jpeg")):
        path.write_bytes(encoded(red, kind))
        block = load_image(str(path)).block
        assert block["mime_type"] == mime
        assert base64.b64decode(block["base64"]) == path.read_bytes()
    turned[0x0112] = 6
    cases = {
        "turned": (encoded(red, "JPEG", exif=turned), "image/jpeg"),
        "cmyk": (encoded(red.convert("CMYK"), "JPEG"), "image/jpeg"),
        "alpha": (encoded(red.convert("RGBA")), "image/png"),
        "grey": (encoded(red.convert("L")), "image/png"),
        "webp": (encoded(red, "WEBP"), "image/png"),
        "frames": (encoded(red, save_all=True, append_images=[black]), "image/png"),
        "tiny": (encoded(Image.new("RGB", (9, 9), "red")), "image/png"),
        "long": (encoded(Image.new("RGB", (9000, 32), "red")), "image/png"),
        "large": (encoded(Image.new("L", (4000, 4000))), "image/png"),
        # As PNG it takes too long.
        "larger": (encoded(Image.new("L", (4010, 4000))), "image/jpeg"),
    }
    for name, (data, mime) in cases.items():
        decoded = block_image({"image": data})
        sent = base64.b64decode(decoded.block["base64"])
        image = Image.open(io.BytesIO(sent))
        assert decoded.mime_type == mime == Image.MIME[image.format], name
        assert sent != data, name
        assert (image.mode, image.size) == ("RGB", decoded.image.size), name
        assert 0x0112 not in image.getexif(), name
        assert getattr(image, "n_frames", 1) == 1, name
    image = block_image({"image": encoded(Image.new("RGB", (300, 100), "red"))})
    shrunk = image.shrink(7500)
    assert Image.open(io.BytesIO(base64.b64decode(shrunk.block["base64"]))).size == (150, 50)
    assert image.shrink(7500) is shrunk
    assert shrunk.digest != image.digest
    assert image.shrink(30_000) is image.shrink(None) is image


# Once in a process.


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


def test_an_image_is_decoded_once_and_preprocessed_once_for_models_that_want_it_alike(
    picture, opened, preprocessed, qwen_checkpoint, internvl_checkpoint
):
    pair = load_pair("demo")
    mai = create_mai(
        pair.small, pair.large, prompts=pair.prompts, verifier=lambda one, other: "disagree"
    )
    result = mai.invoke({"question": "How many red circles are there?", "images": [picture]})
    assert result["route"] == "transferred"
    assert len(result["calls"]) == 4
    assert opened == [1]
    assert preprocessed == [1]
    block = load_image(picture).block
    for path in (qwen_checkpoint, internvl_checkpoint, qwen_checkpoint):
        model = ChatTransformers(model=str(path), dtype="float32", max_tokens=1)
        model.invoke([HumanMessage([block, "What?"])])
    assert opened == [1]
    assert preprocessed == [1, 1, 1]


def test_equal_bytes_are_one_image_in_every_form_and_thread(picture, opened, tmp_path):
    found = []
    threads = [threading.Thread(target=lambda: found.append(load_image(picture))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    image = load_image(picture)
    (tmp_path / "copy.jpg").write_bytes(image.data)
    text = "".join(image.base64)  # an equal text, not the same object
    forms = [
        *found,
        load_image(str(tmp_path / "copy.jpg")),
        block_image(image.block),
        block_image({"type": "image", "base64": text}),
        load_image(f"data:image/png;base64,{text}"),
        block_image({"image": image.data}),
        cached_image(image.digest),
    ]
    assert len(forms) == 14
    assert all(form is image for form in forms)
    assert opened == [1]
    clear_image_cache()
    assert cached_image(image.digest) is None
    assert block_image(image.block).digest == image.digest
    Image.new("RGB", (160, 160), "blue").save(picture)  # a changed file is another image
    assert load_image(picture).image.getpixel((5, 5)) == (0, 0, 255)
    assert load_image(picture).digest != image.digest


def test_an_image_encoded_again_is_known_by_its_block(opened):
    image = block_image({"image": Image.new("L", (50, 50), time.time_ns() % 256)})
    assert block_image(image.block) is image
    text = base64.b64encode(encoded(Image.effect_noise((50, 50), 80), "WEBP")).decode()
    image = block_image({"type": "image", "base64": text})
    assert block_image(image.block) is block_image({"type": "image", "base64": text}) is image
    assert opened == [1]


def test_failures_are_not_cached(tmp_path):
    path = tmp_path / "late.png"
    for _ in range(2):
        path.write_bytes(b"no image yet")
        with pytest.raises(ImageError):
            load_image(str(path))
    path.write_bytes(RED)
    assert load_image(str(path)).image.getpixel((5, 5)) == (255, 0, 0)


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


def test_caches_are_cleared_for_a_cold_start(qwen_checkpoint, picture, opened):
    model = ChatTransformers(model=str(qwen_checkpoint), device="cpu", max_tokens=4)

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
