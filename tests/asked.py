"""Pictures, and the messages that ask about them."""

from langchain_core.messages import HumanMessage
from PIL import Image, ImageDraw


def picture(colour: str, size: tuple[int, int] = (100, 70)) -> Image.Image:
    """An ellipse on white."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).ellipse((10, 10, size[0] - 10, size[1] - 10), fill=colour)
    return image


def ask(text: str, *images: Image.Image) -> list[HumanMessage]:
    return [HumanMessage([*({"type": "image", "image": image} for image in images), text])]
