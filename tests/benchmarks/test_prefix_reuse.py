"""How much of a shared prefix was reused, counted in whole blocks."""

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai.benchmarks.prefix_reuse import Reuse, reused_share, shared_tokens
from langgraph_mai.models.images import block_image


def test_only_full_blocks_count():
    assert Reuse(shared=41, block=32, cached=32).reusable == 32
    assert reused_share([Reuse(shared=41, block=32, cached=32)]) == 1.0
    assert reused_share([Reuse(shared=100, block=32, cached=64)]) == pytest.approx(64 / 96)


def test_what_lies_beyond_the_shared_prefix_does_not_make_up_for_what_lacks():
    pairs = [Reuse(shared=64, block=32, cached=96), Reuse(shared=64, block=32, cached=0)]
    assert reused_share(pairs) == 0.5


def test_without_a_full_block_there_is_no_share():
    assert reused_share([]) is None
    assert reused_share([Reuse(shared=31, block=32, cached=0)]) is None


def test_shared_tokens_end_where_the_prompts_part(demo_weights):
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(demo_weights / "small")
    block = block_image({"image": Image.new("RGB", (160, 160), "white")}).block

    def prompt(text):
        return [HumanMessage([block, {"type": "text", "text": text}])]

    one, two = prompt("How many?\nAnswer directly."), prompt("How many?\nReason, then answer.")
    alone = shared_tokens(processor, one, one)
    both = shared_tokens(processor, one, two)
    assert 25 < both < alone  # a picture of this size is 25 tokens
