"""Content blocks: what we send, and every form that comes in."""

import base64
import io

import pytest
from PIL import Image

from langgraph_mai.models.images import (
    ImageError,
    block_image,
    is_image_block,
    load_image,
    standard_block,
)


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
        sent = standard_block(block)
        assert sent == image.block
        assert base64.b64decode(sent["base64"])[:4] == b"\x89PNG"


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


def test_plain_files_are_sent_byte_for_byte(tmp_path):
    path = tmp_path / "lying.gif"
    for kind, mime in (("PNG", "image/png"), ("JPEG", "image/jpeg")):
        path.write_bytes(encoded(Image.new("RGB", (40, 40), "red"), kind))
        block = load_image(str(path)).block
        assert block["mime_type"] == mime
        assert base64.b64decode(block["base64"]) == path.read_bytes()


def test_other_files_are_sent_so_that_every_reader_sees_the_same():
    red = Image.new("RGB", (60, 40), "red")
    turned = Image.Exif()
    turned[0x0112] = 6
    black = Image.new("RGB", (60, 40))
    cases = {
        "turned": (encoded(red, "JPEG", exif=turned), "image/jpeg"),
        "cmyk": (encoded(red.convert("CMYK"), "JPEG"), "image/jpeg"),
        "alpha": (encoded(red.convert("RGBA")), "image/png"),
        "grey": (encoded(red.convert("L")), "image/png"),
        "webp": (encoded(red, "WEBP"), "image/png"),
        "frames": (encoded(red, save_all=True, append_images=[black]), "image/png"),
        "tiny": (encoded(Image.new("RGB", (9, 9), "red")), "image/png"),
        "long": (encoded(Image.new("RGB", (9000, 32), "red")), "image/png"),
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


def test_large_images_are_shrunk_in_their_shape():
    block = {"image": encoded(Image.new("RGB", (300, 100), "red"))}
    sent = standard_block(block, max_pixels=7500)
    assert Image.open(io.BytesIO(base64.b64decode(sent["base64"]))).size == (150, 50)
    image = block_image(block)
    assert image.shrink(7500) is image.shrink(7500)
    assert image.shrink(7500).digest != image.digest
    assert image.shrink(30_000) is image.shrink(None) is image
