"""What a pass does not do: hold a matrix of the prompt by itself, run layers that nobody needs."""

from contextlib import contextmanager

import pytest
import torch
from attention_prompts import PICTURES, ask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from langgraph_mai.models import ChatTransformers
from langgraph_mai.models.transformers.computation import Computation


class Operations(TorchDispatchMode):
    """Counts what torch computes, and the elements of the largest tensor that comes of it."""

    def __init__(self):
        super().__init__()
        self.names = []
        self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        with self:
            parts = function.decompose(*args, **(kwargs or {}))
        if parts is not NotImplemented:
            return parts
        made = function(*args, **(kwargs or {}))
        self.names.append(function.overloadpacket.__name__)
        sizes = [one.numel() for one in tree_leaves(made) if torch.is_tensor(one)]
        self.largest = max([self.largest, *sizes])
        return made


@pytest.fixture
def model(deep_checkpoint):
    model = ChatTransformers(model=str(deep_checkpoint), dtype="float32", device="cpu").load()
    model.clear_prefix_cache()
    return model


@pytest.fixture
def watched(monkeypatch):
    """The operations of everything that a model computes, one entry a computation."""
    running = Computation.running
    seen = []

    @contextmanager
    def watching(self):
        with running(self), Operations() as operations:
            seen.append(operations)
            yield

    monkeypatch.setattr(Computation, "running", watching)
    return seen


def read(model, text, layers, *pictures):
    return model.attention(ask(text, *pictures), (len(text) // 2, len(text)), layers=layers)


@pytest.mark.parametrize("known", [0, 200])
def test_memory_grows_with_the_prompt_and_not_with_its_square(model, watched, known):
    if known:
        model.invoke(ask("x" * known), max_tokens=1)
    watched.clear()
    lengths = (2500, 5000)
    for length in lengths:
        attention = read(model, "x" * known + "y" * length, [3])
        assert attention.input_tokens > length
        assert (attention.cached_tokens > 0) == (known > 0)
    once, twice = (one.largest for one in watched)
    assert once < lengths[0] ** 2
    assert twice < 2.2 * once


def count(operations, name):
    return sum(one == name for one in operations.names)


@pytest.mark.parametrize("layer", [1, 2, 3, 4])
def test_nothing_runs_behind_the_keys_of_the_highest_layer(model, watched, layer):
    """A layer multiplies with seven matrices, three of them before its attention."""
    text = "Something to read, and to be done with."
    read(model, text, [layer])
    (operations,) = watched
    attention = "_scaled_dot_product_flash_attention_for_cpu"
    assert count(operations, attention) == layer - 1
    products = count(operations, "mm") + count(operations, "addmm")
    assert products == 7 * (layer - 1) + 3


def test_every_wanted_layer_is_read_in_one_pass(model, watched):
    read(model, "Something to read.", "all")
    (operations,) = watched
    assert count(operations, "_softmax") == 4


def test_a_picture_runs_through_the_vision_tower_only(model, watched):
    read(model, "Something to see.", [1], PICTURES[0])
    with_picture, alone = count(watched[0], "mm") + count(watched[0], "addmm"), 3
    assert with_picture > alone
    model.invoke(ask("Something to see.", PICTURES[0]), max_tokens=1)
    watched.clear()
    read(model, "Something to see.", [1], PICTURES[0])
    assert count(watched[0], "mm") + count(watched[0], "addmm") == alone
