"""Every kind of image file becomes the RGB image a person would see, or one sentence."""

import io
import struct
import time
import warnings
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from langgraph_mai.models.images import ImageError, block_image, load_image

RED, WHITE, BLUE, BLACK = (220, 30, 30), (255, 255, 255), (30, 30, 220), (0, 0, 0)


def flag(mode="RGB", size=(320, 240)):
    """A red band on top, a blue square at the lower right, white elsewhere."""
    image = Image.new("RGB", size, WHITE)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, size[0], size[1] // 6), fill=RED)
    draw.rectangle((size[0] * 3 // 4, size[1] * 3 // 4, size[0], size[1]), fill=BLUE)
    return image.convert(mode)


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def decoded(data):
    return block_image({"image": data}).image


def near(image, point, colour, tolerance=12):
    found = image.getpixel(point)
    return all(abs(a - b) <= tolerance for a, b in zip(found, colour, strict=True))


def is_flag(image):
    points = {(160, 5): RED, (5, 220): WHITE, (315, 235): BLUE}
    right = all(near(image, point, colour) for point, colour in points.items())
    return right and image.mode == "RGB" and image.size == (320, 240)


def without_adobe_marker(jpeg):
    at = jpeg.index(b"\xff\xee")
    (length,) = struct.unpack(">H", jpeg[at + 2 : at + 4])
    return jpeg[:at] + jpeg[at + 2 + length :]


def test_formats_and_colour_models():
    for kind in ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "PPM"):
        assert is_flag(decoded(encoded(flag(), kind))), kind
    assert is_flag(decoded(encoded(flag("CMYK"), "TIFF")))
    adobe = encoded(flag("CMYK"), "JPEG", quality=95)
    assert b"Adobe" in adobe
    assert is_flag(decoded(adobe))
    inverted = Image.merge("CMYK", [band.point(lambda v: 255 - v) for band in flag("CMYK").split()])
    plain = without_adobe_marker(encoded(inverted, "JPEG", quality=95))
    assert is_flag(decoded(plain)), "only what Adobe marks is stored inverted"
    for mode, kind in (("L", "PNG"), ("L", "JPEG"), ("1", "PNG"), ("1", "TIFF")):
        grey = decoded(encoded(flag(mode), kind))
        assert (grey.mode, grey.size) == ("RGB", (320, 240))
        assert all(len(set(grey.getpixel(at))) == 1 for at in ((160, 5), (310, 230)))
        assert grey.getpixel((5, 200)) == WHITE


def test_exif_orientation():
    turns = Image.Transpose
    undo = {
        2: turns.FLIP_LEFT_RIGHT, 3: turns.ROTATE_180, 4: turns.FLIP_TOP_BOTTOM, 5: turns.TRANSPOSE,
        6: turns.ROTATE_90, 7: turns.TRANSVERSE, 8: turns.ROTATE_270,
    }  # fmt: skip
    for orientation in range(1, 9):
        sideways = flag().transpose(undo[orientation]) if orientation in undo else flag()
        exif = Image.Exif()
        exif[0x0112] = orientation
        for kind in ("JPEG", "PNG", "WEBP"):
            assert is_flag(decoded(encoded(sideways, kind, exif=exif))), (orientation, kind)


@pytest.mark.parametrize("filters", ["default", "error", "ignore"])
def test_unreadable_exif_does_not_spoil_an_image(filters):
    broken = [
        b"Exif\0\0MM\0*\xff\xff\xff\xff",  # Pillow warns of it
        b"Exif\0\0XX\0*\0\0\0\x08",
        b"Exif\0\0",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x09\x01",
    ]
    # What can be read of it counts: here, the orientation.
    half = b"Exif\0\0MM\0*\0\0\0\x08\0\x02\x01\x12\0\x03\0\0\0\x01\0\x03\0\0"
    upside_down = encoded(flag().transpose(Image.Transpose.ROTATE_180), "JPEG", exif=half)
    with warnings.catch_warnings(record=filters == "default"):
        warnings.simplefilter(filters)
        before = list(warnings.filters)
        for kind in ("JPEG", "PNG", "WEBP"):
            for exif in broken:
                # A comment of its own: equal bytes are decoded once.
                data = encoded(flag(), kind, exif=exif) + filters.encode()
                assert is_flag(decoded(data))
            opened = Image.open(io.BytesIO(encoded(flag(), kind)))
            assert is_flag(block_image({"image": opened}).image)
        assert is_flag(decoded(upside_down + filters.encode()))
        assert warnings.filters == before


def test_transparency_becomes_white():
    dot = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    ImageDraw.Draw(dot).rectangle((20, 20, 40, 40), fill=(0, 0, 0, 255))
    image = decoded(encoded(dot))
    assert (image.getpixel((0, 0)), image.getpixel((30, 30))) == (WHITE, BLACK)
    hidden = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    palette = Image.new("P", (40, 40), 1)
    palette.putpalette([9, 9, 9, 200, 0, 0])
    ImageDraw.Draw(palette).rectangle((0, 0, 10, 40), fill=0)
    palette_file = encoded(palette, transparency=bytes([0, 255]))
    white = [
        encoded(hidden),
        encoded(hidden, "WEBP", exact=True),
        encoded(Image.new("LA", (40, 40), (0, 0))),
        encoded(Image.new("P", (40, 40), 0), transparency=0),
        encoded(Image.new("L", (40, 40), 0), transparency=0),
        encoded(Image.new("RGB", (40, 40), 0), transparency=(0, 0, 0)),
        palette_file,
    ]
    assert [decoded(data).getpixel((3, 3)) for data in white] == [WHITE] * len(white)
    assert decoded(palette_file).getpixel((30, 3)) == (200, 0, 0)
    half = encoded(Image.new("RGBA", (40, 40), (0, 0, 0, 128)))
    assert near(decoded(half), (3, 3), (127, 127, 127), 1)


def test_the_first_frame_of_an_animation():
    frames = [Image.new("RGB", (64, 48), colour) for colour in ("red", "lime", "blue")]
    kinds = {"GIF": {}, "WEBP": {"lossless": True}, "PNG": {}, "TIFF": {}}
    for kind, options in kinds.items():
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert near(decoded(data), (30, 20), (255, 0, 0)), kind


def test_deep_greys_are_scaled_not_clipped():
    for level, expected in ((0, 0), (32768, 127), (40000, 155), (65535, 255)):
        for kind in ("PNG", "TIFF"):
            image = decoded(encoded(Image.new("I;16", (40, 40), level), kind))
            assert near(image, (3, 3), (expected,) * 3, 1), (level, kind)
    ranges = (("F", 0.0, 1.0), ("F", 0.0, 255.0), ("F", -5.0, 900.0), ("I", 0, 9_000_000))
    for mode, low, high in ranges:
        deep = Image.new(mode, (40, 40), low)
        ImageDraw.Draw(deep).rectangle((0, 0, 20, 40), fill=high)
        image = decoded(encoded(deep, "TIFF"))
        assert near(image, (3, 3), WHITE, 1), (mode, low, high)
        assert near(image, (30, 3), BLACK, 1), (mode, low, high)


def test_truncated_files_are_refused_by_their_name(tmp_path):
    noise = Image.effect_noise((200, 150), 80).convert("RGB")
    path = tmp_path / "half.img"
    for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP"):
        data = encoded(noise, kind)
        for keep in (0, 0.3, 0.6, 0.95):
            path.write_bytes(data[: int(len(data) * keep)])
            with pytest.raises(ImageError, match=r"half\.img") as raised:
                load_image(str(path))
            assert "\n" not in str(raised.value)


def test_what_is_no_image_is_named_and_the_type_comes_from_the_bytes(tmp_path):
    for name in ("wrong.jpg", "wrong.gif", "UPPER.PNG", "without_ending"):
        (tmp_path / name).write_bytes(encoded(flag()))
        image = load_image(str(tmp_path / name))
        assert is_flag(image.image)
        assert image.mime_type == "image/png"
    files = {
        b"<!DOCTYPE html><html><body>404</body></html>": "a web page",
        b"\n<HTML>no</HTML>": "a web page",
        b'<?xml version="1.0"?>\n<svg xmlns="x"></svg>': "SVG",
        b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x">\n<!-- a > b --><svg/>': "SVG",
        b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "b">]><svg/>': "SVG",
        b"%PDF-1.7 ...": "PDF",
        **{
            b"\0\0\0\x18ftyp" + one: "HEIC" for one in (b"heic", b"heix", b"heis", b"hevx", b"mif1")
        },
        b"PK\x03\x04": "a ZIP archive",
        b"version https://git-lfs.github.com/spec/v1\n": "a Git LFS pointer",
        b'{"error": "not found"}': "JSON",
        b"hello": "no known type",
        b"<!---->" * 140: "no known type",
        b"<!doctype svg[]>" * 60: "no known type",
        # Never run: it is a program.
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n": "is not an image",
        b"": "is empty",
    }
    for data, looks_like in files.items():
        for name in ("photo.jpg", "other.png"):  # the one that was asked for is named
            (tmp_path / name).write_bytes(data)
            with pytest.raises(ImageError, match=rf"{name}.*{looks_like}"):
                load_image(str(tmp_path / name))


def header(width, height):
    """A PNG of this size without its pixels: whoever decodes it takes the memory first."""

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    size = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + size + chunk(b"IDAT", zlib.compress(bytes(1000)))


def test_more_than_a_model_can_be_given_is_refused():
    """Also where only the padding makes it large: a ratio of 200 is what processors take."""
    for size in ((10_000, 10_000), (50_000, 50_000), (300_000, 1), (1, 300_000), (2**31 - 1, 1)):
        with pytest.raises(ImageError, match="million pixels"):
            decoded(header(*size))


def test_a_jpeg_with_scans_without_end_is_refused():
    data = encoded(flag(), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    with pytest.raises(ImageError, match="more than 64 scans"):
        decoded(data[:last] + data[last:-2] * 100 + data[-2:])
    assert is_flag(decoded(data))


def test_a_file_of_parts_without_end_is_refused_in_time(monkeypatch):
    chunk = b"\0\0\0\0teXt" + struct.pack(">I", zlib.crc32(b"teXt"))
    files = {
        "PNG": encoded(flag())[:33] + chunk * 400_000 + encoded(flag())[33:],
        "JPEG": b"\xff\xd8" + b"\xff\xfe\0\2" * 400_000 + encoded(flag(), "JPEG")[2:],
        "GIF": encoded(flag("P"), "GIF")[:13] + b"!\xfe\1x\0" * 400_000,
        "PPM": b"P3 " + b"#\n" * 400_000,
    }  # fmt: skip
    monkeypatch.setattr("langgraph_mai.models.images.decoding.DECODE_SECONDS", 0.05)
    for kind, data in files.items():
        start = time.thread_time()
        with pytest.raises(ImageError, match="seconds to decode; save it anew"):
            decoded(data)
        assert time.thread_time() - start < 1, kind


def test_sizes_that_image_processors_refuse():
    def fitted(size):
        return decoded(encoded(Image.new("RGB", size, "red")))

    for size in ((32, 32), (33, 47), (6400, 32), (100, 4000)):
        assert fitted(size).size == size
    for size in ((1, 1), (16, 16), (26, 28), (332, 27), (5, 900), (31, 400)):
        image = fitted(size)
        assert min(image.size) == 32
        assert image.width / image.height == pytest.approx(size[0] / size[1], rel=0.03)
        assert near(image, (image.width // 2, image.height // 2), (255, 0, 0))
    for size in ((1200, 6), (1206, 6), (1093, 5), (6, 1366), (20_000, 1), (1, 999)):
        image = fitted(size)
        assert min(image.size) >= 32
        assert max(image.size) / min(image.size) <= 200
        assert near(image, (image.width // 2, image.height // 2), (255, 0, 0), 40)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_files_load_or_give_one_sentence(kind, changes):
    data = bytearray(encoded(flag(size=(64, 48)), kind))
    for place, value in changes:
        data[int(place * (len(data) - 1))] = value
    refused = ""
    try:
        image = decoded(bytes(data))
    except ImageError as error:
        refused = str(error)
    if refused:
        assert "\n" not in refused
        assert refused.endswith(".")
    else:
        assert image.mode == "RGB"
        assert min(image.size) >= 32
