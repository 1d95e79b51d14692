"""From bytes or a PIL image to the image a person would see: RGB, upright, of a usable shape.

Turned as its EXIF data says, transparent parts white, the first frame of an animation, CMYK and
16-bit greys converted, the type taken from the bytes. Sides below 32 px are scaled up and ratios
above 200 are padded with white, because the processors of vision models refuse them.
"""

import io
import math
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageOps, UnidentifiedImageError

MAX_PIXELS = 89_478_485
"""Images with more pixels are refused (Pillow's own limit against decompression bombs)."""

MIN_SIDE = 32
"""Shortest side in pixels, after loading: a patch of Qwen3-VL (16) times its merge factor (2)."""

MAX_RATIO = 200
"""Longest side over shortest side; Qwen's image processor refuses more."""

# Image.open tries only these: among the others are formats that run programs (EPS) or read
# further files.
_FORMATS = (
    "PNG", "JPEG", "GIF", "WEBP", "BMP", "DIB", "TIFF", "AVIF", "ICO", "PPM", "JPEG2000", "TGA",
)  # fmt: skip

_LOOKS_LIKE = (
    (re.compile(rb"\s*(<!doctype html|<html|<head|<body)", re.IGNORECASE), "a web page"),
    (re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)?<svg", re.IGNORECASE | re.DOTALL), "SVG"),
    (re.compile(rb"%PDF"), "PDF"),
    (re.compile(rb".{4}ftyp(heic|heix|hevc|mif1|msf1)", re.DOTALL), "HEIC"),
    (re.compile(rb".{4}ftyp", re.DOTALL), "a video"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"version https://git-lfs"), "a Git LFS pointer"),
    (re.compile(rb"\s*[\[{]"), "JSON"),
)


_changing_filters = threading.Lock()


class ImageError(ValueError):
    """An image that cannot be used; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """A decoded image.

    Attributes:
        image: RGB, upright, flattened over white, sides and ratio within the limits.
        format: Pillow's name of the encoding, None for an image that was never encoded.
        untouched: Whether the encoded bytes show exactly `image` to any reader: plain RGB PNG or
            JPEG, upright, one frame, nothing padded or scaled.
    """

    image: Image.Image
    format: str | None
    untouched: bool


def decode_image(data: bytes, name: str) -> Pixels:
    """Decode encoded bytes; the type is read from the bytes, never from a name.

    Args:
        data: The bytes of an image file.
        name: What the image is called in error messages.

    Raises:
        ImageError: Empty, not an image, truncated, damaged, or more than `MAX_PIXELS`.
    """
    if not data:
        raise ImageError(f"{name} is empty (0 bytes).")
    return _despite_warnings(lambda: _decode(data, name))


def normalize_image(opened: Image.Image, name: str) -> Pixels:
    """Bring a PIL image of any mode into the form of `Pixels`; the argument is not changed.

    Of an animation or a multi-page file the frame the image stands at is taken: the first one,
    after opening.

    Raises:
        ImageError: Truncated, damaged, without pixels, or more than `MAX_PIXELS`.
    """
    return _despite_warnings(lambda: _normalize(opened, name))


def encode_image(image: Image.Image, mime_type: str) -> bytes:
    """Encode as "image/jpeg" (quality 95, full colour resolution) or as PNG."""
    stream = io.BytesIO()
    if mime_type == "image/jpeg":
        image.save(stream, "JPEG", quality=95, subsampling=0)
    else:
        image.save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def shrink_image(image: Image.Image, max_pixels: int) -> Image.Image:
    """Return a larger image with so many pixels, of the same shape."""
    scale = (max_pixels / (image.width * image.height)) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC)


def _despite_warnings(read: Callable[[], Pixels]) -> Pixels:
    """Read an image; where the program makes warnings errors, Pillow's do not refuse it.

    Pillow warns of what it can do without, such as broken EXIF data. Warning filters belong to the
    whole process, so they are only changed where one of them is in the way, and one at a time.
    """
    try:
        return read()
    except Warning:
        with _changing_filters, warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
            return read()


def _decode(data: bytes, name: str) -> Pixels:
    try:
        opened = Image.open(io.BytesIO(data), formats=_FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(name) from error
    except UnidentifiedImageError as error:
        raise ImageError(_not_an_image(data, name)) from error
    except Warning:
        raise
    except Exception as error:
        raise _damaged(name, error) from error
    return _normalize(opened, name)


def _normalize(opened: Image.Image, name: str) -> Pixels:
    if opened.width * opened.height > MAX_PIXELS:
        raise _too_large(name)
    if not opened.width or not opened.height:
        raise ImageError(f"{name} has no pixels ({opened.width} x {opened.height}).")
    try:
        opened.load()
        upright = _upright(opened)
        rgb = _flatten(_eight_bit(_true_cmyk(upright, opened)))
        image = _fit(rgb)
    except Image.DecompressionBombWarning as error:
        raise _too_large(name) from error
    except Warning:
        raise
    except Exception as error:
        raise _damaged(name, error) from error
    untouched = (
        opened.format in {"PNG", "JPEG"}
        and opened.mode == "RGB"
        and not opened.has_transparency_data
        and not getattr(opened, "is_animated", False)
        and upright is opened
        and image is rgb
    )
    return Pixels(image=image, format=opened.format, untouched=untouched)


def _upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation; the same object if there is nothing to turn."""
    try:
        if image.getexif().get(0x0112, 1) in range(2, 9):
            return ImageOps.exif_transpose(image)
    except Warning:
        raise
    except Exception:  # noqa: BLE001  unreadable EXIF data says nothing about the pixels
        return image
    return image


def _true_cmyk(image: Image.Image, opened: Image.Image) -> Image.Image:
    """Undo Pillow's inversion of CMYK JPEGs where the file does not ask for it.

    Adobe programs store CMYK JPEGs inverted and mark them. Pillow inverts marked and unmarked ones.
    """
    if image.mode == "CMYK" and opened.format in {"JPEG", "MPO"} and "adobe" not in opened.info:
        return ImageChops.invert(image)
    return image


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float greys to 8 bits; Pillow's own conversion clips them."""
    if image.mode.startswith("I;16"):
        return _scaled(image.convert("I"), 0, 65535)
    if image.mode == "I":
        low, high = _extrema(image)
        if low >= 0 and high <= 65535:
            sixteen_bit = high > 255 or image.format == "PNG"
            return _scaled(image, 0, 65535 if sixteen_bit else 255)
        return _scaled(image, low, high)
    if image.mode == "F":
        low, high = _extrema(image)
        if low >= 0 and high <= 255:
            return _scaled(image, 0, 1 if high <= 1 else 255)
        return _scaled(image, low, high)
    return image


def _extrema(image: Image.Image) -> tuple[float, float]:
    low, high = image.getextrema()
    if isinstance(low, tuple) or isinstance(high, tuple):  # only images of several bands
        raise TypeError("expected one band")
    return low, high


def _scaled(image: Image.Image, low: float, high: float) -> Image.Image:
    scale = 255 / ((high - low) or 1)
    grey = image.point(lambda value: value * scale - low * scale).convert("L")
    grey.info.pop("transparency", None)  # a grey level of the old depth
    return grey


def _flatten(image: Image.Image) -> Image.Image:
    """To RGB, transparent parts white (a bare conversion shows black or hidden colours there)."""
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _fit(image: Image.Image) -> Image.Image:
    """Pad very long images with white to `MAX_RATIO`, then scale tiny ones up to `MIN_SIDE`.

    Image processors of vision models raise on images outside these limits. The same object if
    there is nothing to do.
    """
    short = max(min(image.size), math.ceil(max(image.size) / MAX_RATIO))
    if short > min(image.size):
        size = (max(image.width, short), max(image.height, short))
        image = ImageOps.pad(image, size, color="white") if image.size != size else image
    if min(image.size) < MIN_SIDE:
        scale = MIN_SIDE / min(image.size)
        size = (round(image.width * scale), round(image.height * scale))
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image


def _not_an_image(data: bytes, name: str) -> str:
    head = data[:1000]
    looks = next((what for pattern, what in _LOOKS_LIKE if pattern.match(head)), None)
    found = f"its content looks like {looks}" if looks else "its content is of no known type"
    known = "PNG, JPEG, WebP, GIF, BMP, TIFF or AVIF"
    return f"{name} is not an image ({found}); give a {known} file."


def _too_large(name: str) -> ImageError:
    return ImageError(
        f"{name} has more than {MAX_PIXELS // 1_000_000} million pixels; scale it down first."
    )


def _damaged(name: str, error: Exception) -> ImageError:
    if isinstance(error, MemoryError):
        return ImageError(f"There is not enough memory to decode {name}; scale it down first.")
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return ImageError(f"{name} is truncated: its end is missing, so get the whole file.")
    reason = " ".join(str(error).split()) or type(error).__name__
    return ImageError(f"{name} is damaged and cannot be decoded ({reason}).")
