"""Prompts whose attention is read, and transformers' own word on it."""

from functools import cache

import numpy as np
import torch
from langchain_core.messages import HumanMessage
from PIL import Image, ImageDraw

# What the checkpoints' chat template puts behind the last message: two marks, and these bytes.
_BEHIND = 2 + len("\nassistant\n")


def picture(colour, size):
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).ellipse((5, 5, size[0] - 5, size[1] - 5), fill=colour)
    return image


PICTURES = [picture("red", (100, 70)), picture("blue", (64, 64)), picture("green", (40, 130))]


def ask(text, *pictures):
    blocks = [{"type": "image", "image": one} for one in pictures]
    return [HumanMessage([*blocks, {"type": "text", "text": text}])]


def eager_attention(folder, messages, span, query):
    """All layers' attention, head by head, on a stretch, from a whole forward pass.

    Every byte of a text is a token of these checkpoints, so the stretch is found by counting from
    the prompt's end.

    Returns:
        Shape (layers, heads, tokens).
    """
    model, processor = _load_eager(folder)
    turns = [{"role": _ROLES[one.type], "content": _parts(one)} for one in messages]
    images = [part["image"] for turn in turns for part in turn["content"] if "image" in part]
    text = processor.apply_chat_template(turns, add_generation_prompt=True)
    inputs = processor(text=[text], images=images or None, return_tensors="pt")
    with torch.inference_mode():
        layers = model(**inputs, output_attentions=True).attentions
    message = "".join(part.get("text", "") for part in turns[-1]["content"])
    behind = len(message[span[1] :].encode()) + _BEHIND
    end = inputs["input_ids"].shape[1] - behind
    start = end - len(message[span[0] : span[1]].encode())
    return np.stack([layer[0, :, query, start:end].numpy() for layer in layers])


_ROLES = {"human": "user", "ai": "assistant", "system": "system"}


def _parts(message):
    blocks = [message.content] if isinstance(message.content, str) else message.content
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]


@cache
def _load_eager(folder):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval(), AutoProcessor.from_pretrained(folder)
