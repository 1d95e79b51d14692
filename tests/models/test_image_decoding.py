"""Every kind of picture file becomes the RGB image a person would see, or one sentence."""

import io
import struct
import warnings
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from langgraph_mai.models import ImageError, image_reference, load_image

RED, WHITE, BLUE = (220, 30, 30), (255, 255, 255), (30, 30, 220)


def flag(mode="RGB", size=(320, 240)):
    """A picture with a red band on top, a blue square at the lower right, white elsewhere."""
    image = Image.new("RGB", size, WHITE)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, size[0], size[1] // 6), fill=RED)
    draw.rectangle((size[0] * 3 // 4, size[1] * 3 // 4, size[0], size[1]), fill=BLUE)
    return image.convert(mode)


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def load(tmp_path, data, name="picture.png"):
    path = tmp_path / name
    path.write_bytes(data)
    return load_image(str(path))


def near(left, right, tolerance=12):
    return all(abs(a - b) <= tolerance for a, b in zip(left, right, strict=True))


def assert_flag(image, size=(320, 240)):
    assert image.mode == "RGB"
    assert image.size == size
    assert near(image.getpixel((size[0] // 2, 5)), RED)
    assert near(image.getpixel((5, size[1] - 20)), WHITE)
    assert near(image.getpixel((size[0] - 5, size[1] - 5)), BLUE)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "PPM"])
def test_common_formats_load(tmp_path, kind):
    assert_flag(load(tmp_path, encoded(flag(), kind)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_applied(tmp_path, orientation, kind):
    undo = {
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }
    sideways = flag()
    for step in undo.get(orientation, []):
        sideways = sideways.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert_flag(load(tmp_path, encoded(sideways, kind, exif=exif)))


@pytest.mark.parametrize("filters", ["default", "error", "ignore"])
@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0MM\0*\xff\xff\xff\xff",  # Pillow warns of it
        b"Exif\0\0XX\0*\0\0\0\x08",
        b"Exif\0\0",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x09\x01",
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_unreadable_exif_does_not_spoil_a_picture(tmp_path, filters, exif, kind):
    data = encoded(flag(), kind, exif=exif)
    with warnings.catch_warnings(record=filters == "default"):
        warnings.simplefilter(filters)
        before = list(warnings.filters)
        assert_flag(load(tmp_path, data))
        assert_flag(load_image(image_reference(Image.open(io.BytesIO(encoded(flag(), kind))))))
        assert warnings.filters == before


def test_broken_exif_keeps_what_can_be_read(tmp_path):
    """The orientation counts whether warnings are errors or not."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x02\x01\x12\0\x03\0\0\0\x01\0\x03\0\0"
    upside_down = flag().transpose(Image.Transpose.ROTATE_180)
    for filters in ("ignore", "error"):
        with warnings.catch_warnings():
            warnings.simplefilter(filters)
            assert_flag(load(tmp_path, encoded(upside_down, "JPEG", exif=exif)))


def test_transparent_parts_are_white(tmp_path):
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    ImageDraw.Draw(image).rectangle((20, 20, 40, 40), fill=(0, 0, 0, 255))
    loaded = load(tmp_path, encoded(image, "PNG"))
    assert loaded.getpixel((0, 0)) == WHITE
    assert loaded.getpixel((30, 30)) == (0, 0, 0)


def test_colours_hidden_under_transparency_stay_hidden(tmp_path):
    image = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    for kind in ("PNG", "WEBP"):
        loaded = load(tmp_path, encoded(image, kind, **({"exact": True} if kind == "WEBP" else {})))
        assert loaded.getpixel((32, 32)) == WHITE


def test_half_transparent_is_mixed_with_white(tmp_path):
    loaded = load(tmp_path, encoded(Image.new("RGBA", (40, 40), (0, 0, 0, 128)), "PNG"))
    assert near(loaded.getpixel((3, 3)), (127, 127, 127), 1)


@pytest.mark.parametrize(("mode", "transparency"), [("P", 0), ("L", 0), ("RGB", (0, 0, 0))])
def test_a_transparent_colour_is_white(tmp_path, mode, transparency):
    image = Image.new(mode, (40, 40), 0)
    loaded = load(tmp_path, encoded(image, "PNG", transparency=transparency))
    assert loaded.getpixel((3, 3)) == WHITE


def test_palette_with_alpha_for_each_colour(tmp_path):
    image = Image.new("P", (40, 40), 1)
    image.putpalette([9, 9, 9, 200, 0, 0])
    ImageDraw.Draw(image).rectangle((0, 0, 10, 40), fill=0)
    loaded = load(tmp_path, encoded(image, "PNG", transparency=bytes([0, 255])))
    assert loaded.getpixel((3, 3)) == WHITE
    assert loaded.getpixel((30, 3)) == (200, 0, 0)


def test_grey_with_alpha(tmp_path):
    loaded = load(tmp_path, encoded(Image.new("LA", (40, 40), (0, 0)), "PNG"))
    assert loaded.getpixel((3, 3)) == WHITE


@pytest.mark.parametrize(
    ("mode", "kind"), [("L", "PNG"), ("L", "JPEG"), ("1", "PNG"), ("1", "TIFF")]
)
def test_grey_and_one_bit_pictures_get_three_equal_channels(tmp_path, mode, kind):
    loaded = load(tmp_path, encoded(flag(mode), kind))
    assert loaded.mode == "RGB"
    assert loaded.size == (320, 240)
    for point in ((160, 5), (5, 200), (310, 230)):
        assert len(set(loaded.getpixel(point))) == 1
    assert loaded.getpixel((5, 200)) == WHITE


def without_adobe_marker(jpeg):
    """The file without its APP14 segment, and with the levels inverted back by the encoder."""
    at = jpeg.index(b"\xff\xee")
    (length,) = struct.unpack(">H", jpeg[at + 2 : at + 4])
    return jpeg[:at] + jpeg[at + 2 + length :]


def test_cmyk_jpegs_with_adobes_inversion_have_the_right_colours(tmp_path):
    jpeg = encoded(flag("CMYK"), "JPEG", quality=95)
    assert b"Adobe" in jpeg
    assert_flag(load(tmp_path, jpeg))


def test_cmyk_jpegs_without_adobes_mark_are_not_inverted(tmp_path):
    inverted = Image.merge("CMYK", [band.point(lambda v: 255 - v) for band in flag("CMYK").split()])
    assert_flag(load(tmp_path, without_adobe_marker(encoded(inverted, "JPEG", quality=95))))


def test_cmyk_tiff(tmp_path):
    assert_flag(load(tmp_path, encoded(flag("CMYK"), "TIFF")))


@pytest.mark.parametrize(
    ("kind", "options"), [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})]
)
def test_the_first_frame_of_an_animation(tmp_path, kind, options):
    frames = [Image.new("RGB", (64, 48), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=50, **options)
    assert near(load(tmp_path, data).getpixel((30, 20)), (255, 0, 0))


def test_the_first_page_of_a_tiff(tmp_path):
    pages = [Image.new("RGB", (64, 48), colour) for colour in ("red", "blue")]
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert load(tmp_path, data).getpixel((30, 20)) == (255, 0, 0)


@pytest.mark.parametrize(("level", "expected"), [(0, 0), (32768, 127), (40000, 155), (65535, 255)])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_greys_are_scaled_not_clipped(tmp_path, level, expected, kind):
    loaded = load(tmp_path, encoded(Image.new("I;16", (40, 40), level), kind))
    assert near(loaded.getpixel((3, 3)), (expected,) * 3, 1)


@pytest.mark.parametrize(
    ("mode", "low", "high"), [("F", 0.0, 1.0), ("F", 0.0, 255.0), ("F", -5.0, 900.0), ("I", 0, 9e6)]
)
def test_deep_tiffs_use_the_whole_range(tmp_path, mode, low, high):
    image = Image.new(mode, (40, 40), low if mode == "F" else int(low))
    ImageDraw.Draw(image).rectangle((0, 0, 20, 40), fill=high if mode == "F" else int(high))
    loaded = load(tmp_path, encoded(image, "TIFF"))
    assert near(loaded.getpixel((3, 3)), WHITE, 1)
    assert near(loaded.getpixel((30, 3)), (0, 0, 0), 1)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP"])
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_truncated_files_are_refused_with_their_name(tmp_path, kind, keep):
    data = encoded(Image.effect_noise((200, 150), 80).convert("RGB"), kind)
    with pytest.raises(ImageError, match=r"half\.img") as raised:
        load(tmp_path, data[: int(len(data) * keep)], "half.img")
    assert "\n" not in str(raised.value)


def test_an_empty_file(tmp_path):
    with pytest.raises(ImageError, match=r"nothing\.jpg' is empty"):
        load(tmp_path, b"", "nothing.jpg")


@pytest.mark.parametrize(
    ("data", "looks_like"),
    [
        (b"<!DOCTYPE html><html><body>404</body></html>", "a web page"),
        (b"\n<HTML>no</HTML>", "a web page"),
        (b'<?xml version="1.0"?>\n<svg xmlns="x"></svg>', "SVG"),
        (b"%PDF-1.7 ...", "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b'{"error": "not found"}', "JSON"),
        (b"hello", "no known type"),
    ],
)
def test_what_is_no_picture_is_named(tmp_path, data, looks_like):
    with pytest.raises(ImageError, match=looks_like):
        load(tmp_path, data, "photo.jpg")


def test_postscript_is_never_run(tmp_path):
    with pytest.raises(ImageError, match="not a picture"):
        load(tmp_path, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "x.eps")


@pytest.mark.parametrize("name", ["wrong.jpg", "wrong.gif", "UPPER.PNG", "without_ending"])
def test_the_type_comes_from_the_bytes(tmp_path, name):
    assert_flag(load(tmp_path, encoded(flag(), "PNG"), name))


def png_of_size(width, height):
    """A PNG that claims a size and holds hardly any data."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [10_000, 50_000])
def test_decompression_bombs_are_refused(tmp_path, side):
    with pytest.raises(ImageError, match="million pixels"):
        load(tmp_path, png_of_size(side, side))


@pytest.mark.parametrize("size", [(1, 1), (16, 16), (26, 28), (332, 27), (5, 900), (31, 400)])
def test_tiny_pictures_are_scaled_up(tmp_path, size):
    image = load(tmp_path, encoded(Image.new("RGB", size, "red"), "PNG"))
    assert min(image.size) == 32
    assert image.width / image.height == pytest.approx(size[0] / size[1], rel=0.03)
    assert near(image.getpixel((image.width // 2, image.height // 2)), (255, 0, 0))


@pytest.mark.parametrize(
    "size", [(1200, 6), (1206, 6), (1093, 5), (6, 1366), (20_000, 1), (1, 999)]
)
def test_very_long_pictures_are_padded(tmp_path, size):
    image = load(tmp_path, encoded(Image.new("RGB", size, "red"), "PNG"))
    assert min(image.size) >= 32
    assert max(image.size) / min(image.size) <= 200
    assert near(image.getpixel((image.width // 2, image.height // 2)), (255, 0, 0), 40)


def test_ordinary_sizes_are_kept(tmp_path):
    for size in ((32, 32), (33, 47), (6400, 32), (100, 4000)):
        assert load(tmp_path, encoded(Image.new("RGB", size), "PNG")).size == size


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_files_load_or_give_one_sentence(tmp_path_factory, kind, changes):
    data = bytearray(encoded(flag(size=(64, 48)), kind))
    for place, value in changes:
        data[int(place * (len(data) - 1))] = value
    error = None
    try:
        image = load(tmp_path_factory.getbasetemp(), bytes(data))
    except ImageError as caught:
        error = str(caught)
    if error is None:
        assert image.mode == "RGB"
        assert min(image.size) >= 32
    else:
        assert "\n" not in error
        assert error.endswith(".")
