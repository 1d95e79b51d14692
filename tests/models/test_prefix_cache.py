"""The cache itself: longest prefix, bound, least recently used first."""

import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.models.transformers.prefix_cache import INDEX_BYTES, SHORTEST, PrefixCache
from langgraph_mai.models.transformers.prompt import content_chain

TOKEN = 2 * 3 * 4 + INDEX_BYTES  # bytes: keys and values of 3 floats, and the index


def chain(tokens):
    return content_chain(tokens, [], [])


def known(tokens):
    keys = torch.tensor(tokens, dtype=torch.float32)[None, :, None].repeat(1, 1, 3)
    return ((keys, -keys),)


def stored(*prompts, limit=1 << 20):
    cache = PrefixCache()
    for prompt in prompts:
        cache.store(chain(prompt), known(prompt), limit)
    return cache


def common(first, second):
    return next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)


bits = st.lists(st.integers(0, 1), min_size=0, max_size=12).map(lambda tail: [7] * SHORTEST + tail)


@given(st.lists(bits, max_size=8), bits)
def test_the_longest_common_prefix_is_found(earlier, prompt):
    found = stored(*earlier).find(chain(prompt))
    lengths = [
        min(len(one), len(prompt)) if common(one, prompt) is None else common(one, prompt)
        for one in earlier
    ]
    if not earlier:
        assert found is None
        return
    keys, count = found
    assert count == max(lengths)
    assert keys[0][0][0, :, 0].tolist() == prompt[:count]
    assert keys[0][1][0, :, 0].tolist() == [-token for token in prompt[:count]]


@given(st.lists(bits, max_size=12), st.integers(0, 60))
def test_the_bound_holds(prompts, tokens):
    cache = PrefixCache()
    for prompt in prompts:
        cache.store(chain(prompt), known(prompt), tokens * TOKEN)
        assert cache.nbytes <= tokens * TOKEN
        found = cache.find(chain(prompt))
        assert (found is not None) == (len(cache) > 0)


def test_the_least_recently_used_leaves_first():
    first, second, third = ([token] * 20 for token in (1, 2, 3))
    cache = stored(first, second, limit=40 * TOKEN)
    assert cache.find(chain(first))
    cache.store(chain(third), known(third), 40 * TOKEN)
    assert cache.find(chain(second)) is None
    assert cache.find(chain(first))
    assert cache.find(chain(third))
    assert len(cache) == 2


def test_a_prompt_larger_than_the_bound_pushes_nobody_out():
    cache = stored([1] * 20, limit=30 * TOKEN)
    cache.store(chain([2] * 40), known([2] * 40), 30 * TOKEN)
    assert cache.find(chain([1] * 20))


def test_a_lower_bound_makes_room_at_once():
    cache = stored([1] * 20, [2] * 20, [3] * 20)
    cache.store(chain([4] * 20), known([4] * 20), 25 * TOKEN)
    assert len(cache) == 1
    assert cache.find(chain([4] * 20))


def test_short_prefixes_are_not_worth_it():
    cache = stored([1] * 40)
    assert cache.find(chain([1] * (SHORTEST - 1) + [2] * 9)) is None


@pytest.mark.parametrize("count", [1, 3])
def test_equal_content_is_kept_once(count):
    assert len(stored(*[[5] * 30] * count)) == 1


def test_nothing_is_left_after_clearing():
    cache = stored([1] * 20, [2] * 20)
    cache.clear()
    assert (len(cache), cache.nbytes, cache.find(chain([1] * 20))) == (0, 0, None)


@given(st.lists(bits, max_size=12), st.integers(30, 90))
def test_what_is_left_after_forgetting_is_found(prompts, tokens):
    cache, kept = PrefixCache(), {}
    for prompt in prompts:
        cache.store(chain(prompt), known(prompt), tokens * TOKEN)
        kept[chain(prompt)] = prompt
        found = {one: cache.find(one) for one in kept}
        # Whatever is found is right, for shared prefixes too, whoever they were stored with.
        for one, (keys, count) in ((one, hit) for one, hit in found.items() if hit):
            assert keys[0][0][0, :, 0].tolist() == kept[one][:count]
        whole = [one for one, hit in found.items() if hit and hit[1] == len(one)]
        assert len(whole) >= len(cache)


@pytest.mark.parametrize("shared", [0, 60])
@pytest.mark.parametrize("limit", [60 * 100 * TOKEN, 1 << 30])
def test_the_bound_counts_the_index(shared, limit):
    cache = PrefixCache()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for at in range(400):
            prompt = [7] * shared + [at] * (100 - shared)
            # Tensors are not traced, and of no bytes here: what is left is the index.
            cache.store(chain(prompt), (), limit)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(cache) > 0
    assert 0.3 * cache.nbytes < taken <= 1.05 * cache.nbytes
