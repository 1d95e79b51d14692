"""Loaded models are shared, loaded once, released on request, and kept apart while they load."""

import gc
import threading
import time
import weakref

import pytest
import torch

from langgraph_mai import ChatTransformers


@pytest.fixture
def loads(monkeypatch):
    """The models that were loaded."""
    from transformers import AutoModelForImageTextToText

    loaded, original = [], AutoModelForImageTextToText.from_pretrained

    def counting(*args, **kwargs):
        time.sleep(0.05)
        made = original(*args, **kwargs)
        loaded.append(weakref.ref(made[0]))
        return made

    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", counting)
    return loaded


@pytest.fixture
def fresh(qwen_checkpoint, tmp_path):
    """A folder that no other test has loaded."""
    import shutil

    return str(shutil.copytree(qwen_checkpoint, tmp_path / "model"))


def at_once(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_models_load_once_for_all_who_ask_for_the_same_and_are_freed(fresh, loads):
    model = ChatTransformers(model=fresh, dtype="float32", max_tokens=2)
    answers = []
    at_once(*[lambda: answers.append(model.invoke("x").content)] * 6)
    ChatTransformers(model=fresh, dtype="float32", max_tokens=3, temperature=1, seed=2).load()
    assert len(loads) == 1
    assert len(answers) == 6
    (answer,) = set(answers)
    ChatTransformers(model=fresh, dtype="bfloat16").load()
    ChatTransformers(model=fresh, dtype="float32", attn_implementation="eager").load()
    assert [one().dtype for one in loads] == [torch.float32, torch.bfloat16, torch.float32]
    assert torch.get_default_dtype() == torch.float32
    model.unload()
    model.unload()
    deadline = time.monotonic() + 20
    while loads[0]() is not None and time.monotonic() < deadline:
        gc.collect()  # the model's own thread may still be ending
        time.sleep(0.05)
    assert loads[0]() is None
    assert model.invoke("x").content == answer
    assert len(loads) == 4


def test_running_calls_survive_a_release(fresh):
    model = ChatTransformers(model=fresh, dtype="float32", max_tokens=60, temperature=1.0, seed=1)
    stream = model.stream("x")
    first = next(stream)
    model.unload()
    assert first.content + "".join(chunk.content for chunk in stream) == model.invoke("x").content


def test_no_model_computes_while_another_one_loads(fresh, qwen_checkpoint, monkeypatch):
    """transformers changes torch's default dtype while it loads; a model would notice."""
    from transformers import AutoModelForImageTextToText
    from transformers import StoppingCriteriaList as Watch

    load, step = AutoModelForImageTextToText.from_pretrained, Watch.__call__
    seen = []

    def long_load(*args, **kwargs):
        torch.set_default_dtype(torch.bfloat16)
        time.sleep(0.2)
        torch.set_default_dtype(torch.float32)
        return load(*args, **kwargs)

    def watched(self, *args, **kwargs):
        seen.append(torch.get_default_dtype())
        return step(self, *args, **kwargs)

    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32", max_tokens=8).load()
    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", long_load)
    monkeypatch.setattr(Watch, "__call__", watched)
    loading = threading.Thread(target=ChatTransformers(model=fresh, dtype="bfloat16").load)
    loading.start()
    while loading.is_alive():
        model.invoke("x")
    assert set(seen) == {torch.float32}


@pytest.mark.parametrize(("asked", "expected"), [(None, 1), (3, 3)])
def test_a_small_model_computes_on_one_thread_unless_told(fresh, monkeypatch, asked, expected):
    from transformers import StoppingCriteriaList as Watch

    before, seen = torch.get_num_threads(), []
    original = Watch.__call__

    def watched(self, *args, **kwargs):
        seen.append((threading.current_thread().name, torch.get_num_threads()))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Watch, "__call__", watched)
    model = ChatTransformers(model=fresh, dtype="float32", max_tokens=3, threads=asked)
    at_once(*[lambda: model.invoke("x")] * 3)
    assert {threads for _, threads in seen} == {expected}
    assert len({name for name, _ in seen}) == 1
    others = []  # the rest of the process computes as before
    at_once(lambda: others.append(torch.get_num_threads()))
    assert [*others, torch.get_num_threads()] == [before, before]


def test_two_models_serve_many_threads(qwen_checkpoint, internvl_checkpoint):
    """Tokenizers raise "Already borrowed" when two threads use them."""
    models = [
        ChatTransformers(model=str(path), dtype="float32", max_tokens=60, temperature=1.0, seed=4)
        for path in (qwen_checkpoint, internvl_checkpoint)
    ]
    expected = [model.invoke("x" * 300).content for model in models]
    answers = [[], []]

    def call(at):
        answers[at].append(models[at].invoke("x" * 300).content)

    at_once(*[lambda: call(0), lambda: call(1)] * 6)
    assert answers == [[expected[0]] * 6, [expected[1]] * 6]
