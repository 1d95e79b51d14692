"""Models that compute at the same time divide the CPU threads; one that is alone has them all."""

import shutil
import threading

import pytest
import torch

from langgraph_mai.models import ChatTransformers
from langgraph_mai.models.transformers.checkpoint import ThreadShares, limit_threads


def in_a_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def test_shares_follow_who_computes():
    shares = ThreadShares()
    together, apart = threading.Barrier(2, timeout=10), threading.Barrier(2, timeout=10)
    seen = []

    def compute():
        with shares.computing(4):
            together.wait()
            shares.adjust(4)
            seen.append(torch.get_num_threads())
            apart.wait()

    other = threading.Thread(target=compute)
    other.start()
    in_a_thread(compute)
    other.join()
    assert seen == [2, 2]
    assert in_a_thread(lambda: _alone(shares)) == 4


def _alone(shares):
    with shares.computing(4):
        return torch.get_num_threads()


def test_more_models_than_threads():
    shares = ThreadShares()

    def compute():
        with shares.computing(2), shares.computing(2), shares.computing(2):
            return torch.get_num_threads()

    assert in_a_thread(compute) == 1


def test_a_fixed_number_is_left_alone():
    shares = ThreadShares()
    before = torch.get_num_threads()
    with shares.computing(None):
        shares.adjust(None)
        assert torch.get_num_threads() == before


def test_a_limit_is_that_of_its_thread():
    before = torch.get_num_threads()
    assert in_a_thread(lambda: (limit_threads(3), torch.get_num_threads())[1]) == 3
    assert in_a_thread(torch.get_num_threads) == before
    assert torch.get_num_threads() == before


@pytest.fixture
def large(qwen_checkpoint, tmp_path, monkeypatch):
    """Two models that count as large ones."""
    from langgraph_mai.models.transformers import threads

    monkeypatch.setattr(threads, "SINGLE_THREAD_PARAMETERS", 0)
    folders = [shutil.copytree(qwen_checkpoint, tmp_path / name) for name in ("a", "b")]
    return [
        ChatTransformers(
            model=str(folder), dtype="float32", temperature=1.0, seed=1, max_tokens=60
        ).load()
        for folder in folders
    ]


def test_two_large_models_at_once(large, monkeypatch):
    from langgraph_mai.models.transformers.sampling import Watch

    total = torch.get_num_threads()
    alone = [model.invoke("x").content for model in large]
    seen = {}
    both = threading.Barrier(2, timeout=20)
    step = Watch.__call__

    def watched(self, *args, **kwargs):
        name = threading.get_ident()
        counts = seen.setdefault(name, [])
        if len(counts) == 1:
            both.wait()  # neither goes on before the other one computes
        done = step(self, *args, **kwargs)
        counts.append(torch.get_num_threads())
        return done

    monkeypatch.setattr(Watch, "__call__", watched)
    answers = {}
    threads = [
        threading.Thread(target=lambda at=at: answers.update({at: large[at].invoke("x").content}))
        for at in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[0], answers[1]] == alone
    assert all(counts[1] == max(1, total // 2) for counts in seen.values())
