"""Content blocks: what we send, and every form that comes in."""

import base64
import io

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from PIL import Image

from langgraph_mai.models import (
    ImageError,
    block_image,
    image_block,
    image_reference,
    is_image_block,
    load_image,
    message_images,
)


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


RED = encoded(Image.new("RGB", (40, 40), "red"))
TEXT = base64.b64encode(RED).decode()
URI = f"data:image/png;base64,{TEXT}"


def forms(path):
    return {
        "v1 base64": {"type": "image", "base64": TEXT, "mime_type": "image/png"},
        "v1 base64, wrong label": {"type": "image", "base64": TEXT, "mime_type": "image/jpeg"},
        "v1 base64, no label": {"type": "image", "base64": TEXT},
        "v1 url with data": {"type": "image", "url": URI},
        "v1 url with file": {"type": "image", "url": path.as_uri()},
        "v1 url with path": {"type": "image", "url": str(path)},
        "v0 base64": {
            "type": "image",
            "source_type": "base64",
            "data": TEXT,
            "mime_type": "image/png",
        },
        "v0 url": {"type": "image", "source_type": "url", "url": URI},
        "OpenAI": {"type": "image_url", "image_url": {"url": URI, "detail": "low"}},
        "OpenAI, path": {"type": "image_url", "image_url": {"url": str(path)}},
        "OpenAI, plain": {"type": "image_url", "image_url": URI},
        "OpenAI responses": {"type": "input_image", "image_url": URI},
        "Anthropic base64": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": TEXT},
        },
        "Anthropic url": {"type": "image", "source": {"type": "url", "url": URI}},
        "Hugging Face PIL": {"type": "image", "image": Image.open(io.BytesIO(RED))},
        "Hugging Face path": {"type": "image", "image": str(path)},
        "Hugging Face Path": {"type": "image", "path": path},
        "Hugging Face url": {"type": "image", "url": path.as_uri()},
        "Hugging Face bytes": {"type": "image", "image": RED},
        "Qwen": {"image": str(path)},
        "Google": {"type": "media", "mime_type": "image/png", "data": TEXT},
        "file": {"type": "file", "mime_type": "image/png", "base64": TEXT},
        "non-standard": {
            "type": "non_standard",
            "value": {"type": "image", "source": {"type": "base64", "data": TEXT}},
        },
    }


@pytest.mark.parametrize("form", list(forms(__import__("pathlib").Path("/x"))))
def test_every_form_is_read(tmp_path, form):
    path = tmp_path / "a b.png"
    path.write_bytes(RED)
    block = forms(path)[form]
    assert is_image_block(block)
    assert block_image(block).getpixel((5, 5)) == (255, 0, 0)
    if block.get("type"):  # LangChain itself wants a type
        (reference,) = message_images(HumanMessage([{"type": "text", "text": "x"}, block]))
        assert load_image(reference).getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image"},
        {"type": "image", "base64": ""},
        {"type": "image", "base64": "no base64!"},
        {"type": "image", "file_id": "file-1"},
        {"type": "image_url", "image_url": {}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "x"}},
        {"type": "text", "text": "x"},
        {"type": "audio", "base64": TEXT},
        {"type": "file", "mime_type": "application/pdf", "base64": TEXT},
    ],
)
def test_blocks_without_a_usable_picture(block):
    with pytest.raises(ImageError) as raised:
        block_image(block)
    assert "\n" not in str(raised.value)


def test_texts_have_no_pictures():
    assert message_images(HumanMessage("x")) == []
    assert message_images(AIMessage([{"type": "text", "text": "x"}, "y"])) == []


def test_references_come_in_order_and_the_web_is_left_alone():
    blocks = [
        {"type": "image", "url": "https://example.org/a.png"},
        {"type": "text", "text": "and"},
        {"type": "image", "base64": TEXT, "mime_type": "image/png"},
    ]
    references = message_images(HumanMessage(blocks))
    assert references == ["https://example.org/a.png", image_reference(RED)]


def sent(block):
    assert set(block) == {"type", "base64", "mime_type"}
    assert block["type"] == "image"
    data = base64.b64decode(block["base64"])
    return data, Image.open(io.BytesIO(data))


@pytest.mark.parametrize(("kind", "mime"), [("PNG", "image/png"), ("JPEG", "image/jpeg")])
def test_plain_pictures_are_sent_byte_for_byte(tmp_path, kind, mime):
    path = tmp_path / "lying.gif"
    path.write_bytes(encoded(Image.new("RGB", (40, 40), "red"), kind))
    block = image_block(str(path))
    assert block["mime_type"] == mime
    assert sent(block)[0] == path.read_bytes()


def awkward():
    red = Image.new("RGB", (60, 40), "red")
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "turned": (encoded(red, "JPEG", exif=turned), "image/jpeg"),
        "cmyk": (encoded(red.convert("CMYK"), "JPEG"), "image/jpeg"),
        "alpha": (encoded(red.convert("RGBA")), "image/png"),
        "grey": (encoded(red.convert("L")), "image/png"),
        "webp": (encoded(red, "WEBP"), "image/png"),
        "frames": (
            encoded(red, "PNG", save_all=True, append_images=[Image.new("RGB", (60, 40))]),
            "image/png",
        ),
        "tiny": (encoded(Image.new("RGB", (9, 9), "red")), "image/png"),
        "long": (encoded(Image.new("RGB", (9000, 32), "red")), "image/png"),
    }


@pytest.mark.parametrize("name", list(awkward()))
def test_awkward_pictures_are_sent_so_that_every_reader_sees_the_same(tmp_path, name):
    data, mime = awkward()[name]
    path = tmp_path / "a"
    path.write_bytes(data)
    block = image_block(str(path))
    bytes_sent, image = sent(block)
    assert block["mime_type"] == mime == Image.MIME[image.format]
    assert bytes_sent != data
    assert image.mode == "RGB"
    assert 0x0112 not in image.getexif()
    assert getattr(image, "n_frames", 1) == 1
    assert image.size == load_image(str(path)).size == block_image(block).size


def test_blocks_of_unusable_pictures(tmp_path):
    with pytest.raises(ImageError, match="no file"):
        image_block(str(tmp_path / "no.png"))
