"""From bytes or a PIL image to the image a person would see: RGB, upright, of a usable shape.

Turned as its EXIF data says, transparent parts white, the first frame of an animation, CMYK and
16-bit greys converted, the type taken from the bytes. Sides below 32 px are scaled up and ratios
above 200 are padded with white, because the processors of vision models refuse them.
"""

import io
import math
import re
import threading
import time
import warnings
from typing import NamedTuple, cast

from PIL import Image, ImageChops, ImageOps, UnidentifiedImageError
from typing_extensions import override

MAX_PIXELS = 50_000_000
"""Images with more pixels, as a model would be given them, are refused."""

MAX_RUN_PIXELS = 60_000_000
"""All images of a question together may have so many."""

MAX_IMAGES = 100
"""How many images a question may have."""

MAX_SCANS = 64
"""Progressive JPEGs with more scans are refused: common ones have 10, and each goes over the whole
image."""

DECODE_SECONDS = 4.0
"""Processor time after which no more of a file is read: one of many tiny parts takes long."""

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
    (
        re.compile(
            # Each part is matched in one way (?>): in several, this would take forever.
            rb"\s*(?>(?:<\?xml[^>]*>|<!--.*?-->|<!doctype svg[^>[]*(?:\[.*?\]\s*)?>)\s*)*<svg",
            re.IGNORECASE | re.DOTALL,
        ),
        "SVG",
    ),
    (re.compile(rb"%PDF"), "PDF"),
    (re.compile(rb".{4}ftyp(he[iv][cxms]|mif1|msf1)", re.DOTALL), "HEIC"),
    (re.compile(rb".{4}ftyp", re.DOTALL), "a video"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"version https://git-lfs"), "a Git LFS pointer"),
    (re.compile(rb"\s*[\[{]"), "JSON"),
)


_changing_filters = threading.Lock()


class ImageError(ValueError):
    """An image that cannot be used; the message is one sentence that says why."""


class _BoundedReader(io.BytesIO):
    """A file in memory that refuses to be read for longer than `DECODE_SECONDS`."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self._name = name
        self._end = time.thread_time() + DECODE_SECONDS

    @override
    def read(self, size: int | None = -1) -> bytes:
        if time.thread_time() > self._end:
            raise ImageError(
                f"{self._name} takes more than {DECODE_SECONDS:g} seconds to decode; save it anew."
            )
        return super().read(size)


class Pixels(NamedTuple):
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


def decode_image(source: bytes | Image.Image, name: str) -> Pixels:
    """Decode an image file, or bring a PIL image of any mode into the same form.

    Args:
        source: The bytes of a file, whose type is read from the bytes, never from a name; or a PIL
            image, which is not changed, and of which the frame that it stands at is taken.
        name: What the image is called in error messages.

    Raises:
        ImageError: Empty, not an image, truncated, damaged, or more than `MAX_PIXELS`.
    """
    try:
        try:
            return _decode(source, name)
        except Warning:
            # Pillow warns of what it can do without, such as broken EXIF data. Where the program
            # makes warnings errors, they must not refuse an image. Filters belong to the whole
            # process, so they are only changed where one is in the way, and one at a time.
            with _changing_filters, warnings.catch_warnings():
                warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
                return _decode(source, name)
    except ImageError:
        raise
    except Exception as error:
        raise ImageError(_what_is_wrong(error, source, name)) from error


def _decode(source: bytes | Image.Image, name: str) -> Pixels:
    if isinstance(source, bytes):
        if not source:
            raise ImageError(f"{name} is empty (0 bytes).")
        opened: Image.Image = Image.open(_BoundedReader(source, name), formats=_FORMATS)
        if opened.format in {"JPEG", "MPO"} and source.count(b"\xff\xda") > MAX_SCANS:
            raise ImageError(f"{name} has more than {MAX_SCANS} scans; save it anew.")
    else:
        opened = source
    if not opened.width or not opened.height:
        raise ImageError(f"{name} has no pixels ({opened.width} x {opened.height}).")
    if max(math.prod(opened.size), math.prod(_padded(opened.size))) > MAX_PIXELS:
        raise Image.DecompressionBombError
    opened.load()
    encoding = opened.format
    plain = (
        encoding in {"PNG", "JPEG"}
        and opened.mode == "RGB"
        and not opened.has_transparency_data
        and not getattr(opened, "is_animated", False)
    )
    upright = _upright(opened)
    plain = plain and upright is opened
    if upright.mode == "CMYK" and encoding in {"JPEG", "MPO"} and "adobe" not in opened.info:
        # Adobe programs store CMYK JPEGs inverted and mark them; Pillow inverts all of them.
        upright = ImageChops.invert(upright)
    eight_bit = _eight_bit(upright)
    del opened, upright  # an image of 50 million pixels takes 200 MB
    rgb = _flatten(eight_bit)
    del eight_bit
    image = _fit(rgb)
    return Pixels(image, encoding, plain and image is rgb)


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


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float greys to 8 bits; Pillow's own conversion clips them."""
    low, high = 0.0, 65535.0
    if image.mode.startswith("I;16"):
        image = image.convert("I")
    elif image.mode in {"I", "F"}:
        shallow, deep = (255, 65535) if image.mode == "I" else (1, 255)
        low, high = cast("tuple[float, float]", image.getextrema())
        if low >= 0 and high <= deep:
            low, high = 0, deep if high > shallow or image.format == "PNG" else shallow
    else:
        return image
    scale = 255 / ((high - low) or 1)
    grey = image.point(lambda value: value * scale - low * scale).convert("L")
    grey.info.pop("transparency", None)  # a grey level of the old depth
    return grey


def _flatten(image: Image.Image) -> Image.Image:
    """To RGB, transparent parts white (a bare conversion shows black or hidden colours there)."""
    if image.has_transparency_data:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        flat = Image.new("RGB", rgba.size, "white")
        flat.paste(rgba, mask=rgba.getchannel("A"))
        return flat
    return image if image.mode == "RGB" else image.convert("RGB")


def _padded(size: tuple[int, int]) -> tuple[int, int]:
    """Return a size with the shorter side long enough for `MAX_RATIO`."""
    short = math.ceil(max(size) / MAX_RATIO)
    return max(size[0], short), max(size[1], short)


def _fit(image: Image.Image) -> Image.Image:
    """Pad very long images with white to `MAX_RATIO`, then scale tiny ones up to `MIN_SIDE`.

    The same object if there is nothing to do.
    """
    if (size := _padded(image.size)) != image.size:
        image = ImageOps.pad(image, size, color="white")
    if min(image.size) < MIN_SIDE:
        scale = MIN_SIDE / min(image.size)
        size = (round(image.width * scale), round(image.height * scale))
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image


def _what_is_wrong(error: Exception, source: object, name: str) -> str:
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        millions = MAX_PIXELS // 1_000_000
        return f"{name} has more than {millions} million pixels; scale it down first."
    if isinstance(error, UnidentifiedImageError) and isinstance(source, bytes):
        looks = [what for pattern, what in _LOOKS_LIKE if pattern.match(source[:1000])]
        found = f"looks like {looks[0]}" if looks else "is of no known type"
        known = "PNG, JPEG, WebP, GIF, BMP, TIFF or AVIF"
        return f"{name} is not an image (its content {found}); give a {known} file."
    if isinstance(error, MemoryError):
        return f"There is not enough memory to decode {name}; scale it down first."
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return f"{name} is truncated: its end is missing, so get the whole file."
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{name} is damaged and cannot be decoded ({reason})."
